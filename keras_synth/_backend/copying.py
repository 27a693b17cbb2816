"""Values of variables, from one layer to another of the same parts."""

import numpy as np
from keras import ops

from keras_synth._backend.internals import sublayers


def copy_variables(source, target, instead=None):
    """Gives a layer, and all layers in it, the values of another's variables.

    What LoRA added is in the values, as it is in files. A table that is longer
    than the target's is cut; an axis of length 1 is repeated.

    Args:
        source: Layer or model.
        target: One of the same parts.
        instead: Optional function of a layer and its counterpart that returns
            whether it has copied their variables itself.
    """
    seen = set()

    def copy(source, target):
        if id(source) in seen:
            return
        seen.add(id(source))
        if instead is not None and instead(source, target):
            return
        store, room = {}, {}
        source.save_own_variables(store)
        target.save_own_variables(room)
        fitted = {k: _fitted(x, room[k].shape) for k, x in store.items()}
        target.load_own_variables(fitted)
        parts = (sublayers(x, recursive=False) for x in (source, target))
        for pair in zip(*parts, strict=True):
            copy(*pair)

    copy(source, target)


def _fitted(value, shape):
    # As an array: JAX would share its memory, which training frees.
    value = ops.convert_to_numpy(value)
    return np.broadcast_to(value[tuple(map(slice, shape))], shape)
