"""Keras' padding masks in the graph of a plain model."""

import inspect
import warnings

import keras
import numpy as np
from keras import ops

from keras_synth._backend.execution import without_gradients
from keras_synth._backend.internals import keras_mask, set_keras_mask


def masks_of_call(layer, args, kwargs):
    """The masks of Keras for a layer, as arguments, which a graph keeps.

    Keras finds them in each call, but tensors of a plain model lose them.
    Returns a dictionary of the masks `(B, T)` that the call lacks, in the
    structure of their tensors.
    """
    signature = inspect.signature(layer.call)
    given = signature.bind(*args, **kwargs).arguments
    masks = {}
    for name, x in given.items():
        leaves = keras.tree.flatten(x)
        if leaves and all(map(_is_symbolic, leaves)):
            masks[f"{name}_mask"] = keras.tree.map_structure(keras_mask, x)
    if len(masks) == 1:
        (mask,) = masks.values()
        masks = {"mask": mask}
    return {
        name: mask
        for name, mask in masks.items()
        if name in signature.parameters
        and given.get(name) is None
        and any(x is not None for x in keras.tree.flatten(mask))
    }


def attach_mask(outputs, layer, args, kwargs):
    """Attaches the mask of tokens that are not 0, where a layer computes it.

    KerasHub's embeddings do, and symbolic calls of Keras lose it.
    """
    of_keras = type(layer).__module__.startswith("keras.src.layers.")
    is_embedding = isinstance(layer, keras.layers.Embedding)
    x = args[0] if args else None
    if (
        (of_keras and not is_embedding)
        or not (_is_symbolic(x) and _is_symbolic(outputs))
        or x.dtype == "string"
        or keras_mask(outputs) is not None
    ):
        return
    values = keras.tree.map_structure(
        lambda x: _probe(x) if _is_symbolic(x) else x, (args, kwargs)
    )
    with without_gradients(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it was called before
        mask = keras_mask(layer(*values[0], **values[1]))
    if mask is None:
        return
    ids = values[0][0]
    if mask.shape != ids.shape or not ops.all(ops.equal(mask, ids != 0)):
        raise ValueError(
            f"{type(layer).__name__} attaches a mask that is not of tokens "
            "other than 0. Give it a method `compute_mask`, or fold without "
            f"`plain=True`. Received: {layer!r}"
        )
    set_keras_mask(outputs, ops.not_equal(x, 0))


def _is_symbolic(x):
    return isinstance(x, keras.KerasTensor)


def _probe(x):
    """Zeros and ones like a symbolic tensor."""
    shape = [2 if n is None else n for n in x.shape]
    values = np.arange(np.prod(shape)) % 2
    return ops.cast(ops.reshape(values, shape), x.dtype)
