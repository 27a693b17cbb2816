"""Batches of a model's inputs, and averages of attention over them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from keras import ops, tree

from keras_synth._backend.execution import without_gradients
from keras_synth.analysis import averages
from keras_synth.analysis.recording import CapturedAttention, Recorder
from keras_synth.mixers.call import Call
from keras_synth.surgery.places import inputs_of
from keras_synth.surgery.replacing import Exact
from keras_synth.types import Tensor


def averages_of(
    source: Exact, data: Iterable[dict[str, Any]]
) -> list[averages.Averages]:
    """Returns the average weights of each place of a model.

    They are over pairs of a real token and a token that it can see.
    """
    found = [
        averages.Averages(place.attention.num_heads, place.max_length or 1)
        for place in source.places
    ]

    def add(i, call, captured):
        pairs = captured.visible & captured.query_mask[:, None, :, None]
        found[i].add_pairs(np.where(pairs, captured.weights, 0.0), pairs)

    for inputs in data:
        watch(source, inputs, add)
    return found


def watch(
    source: Exact,
    inputs: dict[str, Any],
    keep: Callable[[int, Call, CapturedAttention], None],
) -> None:
    """Calls a model, and `keep` with each place's number, call and record."""
    layers = [place.attention for place in source.places]

    def record(name, captured):
        layer, call = recorder.current
        number = layers.index(layer)
        place = source.places[number]
        longest, length = place.max_length, call.query.shape[1]
        if longest is not None and length > longest:
            raise ValueError(
                f"The tables have {longest} positions. Cut the sequences, or "
                f"increase `max_length`. Received: {length} tokens in "
                f"{place.origin.path!r}"
            )
        keep(number, call, captured)

    recorder = Recorder(record, layers=layers)
    known = inputs_of(source.model)
    if not isinstance(known, dict):
        inputs = tree.pack_sequence_as(known, [*inputs.values()])
    with recorder, without_gradients():
        source.model(inputs, training=False)


# --- data ---------------------------------------------------------------------


def batches(model: Any, data: Any) -> Iterator[dict[str, Any]]:
    """Yields batches of a model's inputs: arrays by their names, checked.

    `data` are arrays of the inputs; texts, or a tuple of columns of them for
    pairs, if the model has a preprocessor; or an iterable of such batches, or
    of tuples that begin with one.
    """
    preprocessor = getattr(model, "preprocessor", None)
    if preprocessor is not None and are_texts(data):
        data = read_texts(preprocessor, data)
    for batch in averages.batches(data, model):
        yield _checked(model, batch)


def are_texts(x: Any) -> bool:
    """Whether it is a column of texts, or a tuple of columns."""
    columns = x if isinstance(x, tuple) else (x,)
    return len(columns) > 0 and all(
        (isinstance(column, (list, np.ndarray)) or hasattr(column, "to_list"))
        and len(column) > 0
        and all(isinstance(text, str) for text in column)
        for column in columns
    )


def read_texts(preprocessor: Any, texts: Any) -> Any:
    """Returns a model's inputs for a column of texts, or a tuple of them.

    Other batches that a preprocessor reads, such as tensors, are also possible.
    """
    if are_texts(texts):  # KerasHub's byte pairs need lists
        pair = isinstance(texts, tuple)
        texts = tuple(map(list, texts)) if pair else list(texts)
    made = preprocessor(texts, None)
    made = made[0] if isinstance(made, tuple) else made
    return tree.map_structure(as_array, made)


def _checked(model, batch):
    """A batch as a dictionary of arrays, or an error."""
    preprocessor = getattr(model, "preprocessor", None)
    if preprocessor is not None and not isinstance(batch, dict):
        batch = read_texts(preprocessor, batch)
    inputs, flat = inputs_of(model), tree.flatten(batch)
    if not isinstance(inputs, dict):
        inputs = {x.name: x for x in model.inputs}
    if not isinstance(batch, dict) and len(flat) == len(inputs):
        batch = dict(zip(inputs, flat, strict=True))
    try:  # others are not used, as in Keras
        own = {name: batch[name] for name in inputs}
        arrays = tree.map_structure_up_to(inputs, as_array, own)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        keys = f" of {sorted(batch)}" if isinstance(batch, dict) else ""
        raise ValueError(
            f"`data` must be arrays of the model's inputs {[*inputs]}, or "
            "texts if the model has a preprocessor. Received: a batch of "
            f"{type(batch).__name__}{keys}"
        ) from error
    for (path, x), array in zip(
        tree.flatten_with_path(inputs), tree.flatten(arrays), strict=True
    ):
        name, axes = "/".join(map(str, path)), len(x.shape)
        if array.ndim != axes:
            raise ValueError(
                "A batch must have the shape (samples, tokens), padded to one "
                f"length. {name!r} has {axes} axes. "
                f"Received: shape {array.shape}"
            )
        _check_length(model, name, array)
    return arrays


def _check_length(model, name, x):
    side = "decoder" if name.startswith("decoder_") else "sequence"
    backbone = getattr(model, "backbone", model)
    longest = getattr(backbone, f"max_{side}_length", None)
    if longest and name.endswith("token_ids") and x.shape[1] > longest:
        raise ValueError(
            f"The tables have {longest} positions. Cut the sequences, or "
            f"increase `max_length`. Received: {x.shape[1]} tokens"
        )


def as_array(x: Tensor) -> np.ndarray:
    """Converts a tensor of any backend, a list or an array to an array."""
    plain = isinstance(x, (list, np.ndarray))
    return np.asarray(x if plain else ops.convert_to_numpy(x))
