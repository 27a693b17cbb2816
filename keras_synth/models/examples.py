"""Examples in memory: whatever holds them, as NumPy arrays of one length."""

import math

import keras
import numpy as np

from keras_synth.models.texts import plain_texts


def map_parts(function, data):
    """Applies a function to each part of nested tuples and dictionaries.

    As in `tf.data`, tuples and dictionaries are structure, while a list is one
    part: the texts or numbers of all examples.
    """
    if isinstance(data, tuple):
        return tuple(map_parts(function, part) for part in data)
    if isinstance(data, dict):
        return {name: map_parts(function, part) for name, part in data.items()}
    return None if data is None else function(data)


def as_arrays(data, name):
    """Returns examples as NumPy arrays, nested as they came.

    Args:
        data: List, array, tensor of any framework, or pandas Series, one entry
            per example; or tuples and dictionaries of such.
        name: String, what errors call them.

    Returns:
        The same structure of arrays; those of strings hold Python's.

    Raises:
        ValueError: A part is not one of these, or a text is missing.
    """
    if isinstance(data, tuple):
        return tuple(
            as_arrays(part, f"{name}[{at}]") for at, part in enumerate(data)
        )
    if isinstance(data, dict):
        return {
            key: as_arrays(x, f"{name}[{key!r}]") for key, x in data.items()
        }
    return None if data is None else _as_array(data, name)


def _as_array(data, name):
    is_text = isinstance(data, (str, bytes))
    array = np.empty(()) if is_text else _to_numpy(data, name)
    if array.ndim == 0:
        raise ValueError(
            f"{name} must hold examples: a list, an array, a tensor, a pandas "
            "Series, a tuple or dictionary of such, or a dataset. Put a single "
            f"example into a list. Received: {name}={data!r:.60}"
        )
    if array.dtype.kind not in "OSTU":
        return array
    if array.ndim > 1:
        raise ValueError(
            f"{name} must hold one text per example. Pass a column, such as "
            "table['text'], and a tuple of columns for pairs. Received: an "
            f"array of shape {array.shape}"
        )
    if not any(isinstance(entry, (str, bytes)) for entry in array):
        return _narrow(np.array(array.tolist()))  # numbers, kept as objects
    texts = np.empty(len(array), "object")
    texts[:] = plain_texts(array, name)
    return texts


def _to_numpy(data, name):
    if hasattr(data, "to_numpy"):  # pandas
        return data.to_numpy()
    if isinstance(data, list):
        if any(isinstance(entry, (str, bytes)) for entry in data):
            # NumPy's own strings are all as wide as the longest.
            texts = np.empty(len(data), "object")
            texts[:] = data
            return texts
        try:
            return _narrow(np.array(data))
        except ValueError:
            raise ValueError(
                f"{name} must be rectangular: pad its rows to one length. "
                f"Received: {name}[0]={data[0]!r:.60}"
            ) from None
    if keras.ops.is_tensor(data):
        return keras.ops.convert_to_numpy(data)
    return np.asarray(data)


def _narrow(array):
    """Python's numbers in Keras' widths, as KerasHub narrows them."""
    widths = {"f": "float32", "i": "int32"}
    return array.astype(widths.get(array.dtype.kind, array.dtype))


def check_lengths(**parts):
    """Raises unless there are examples, equally many in all parts.

    Args:
        **parts: Nested arrays by name, as `as_arrays` returns them.

    Returns:
        Integer, the number of examples.
    """
    lengths = {}
    for name, data in parts.items():
        _collect_lengths(data, name, lengths)
    (first, count), *others = lengths.items() or [(name, 0)]
    for name, length in others:
        if length != count:
            raise ValueError(
                f"{first} and {name} must hold as many examples. Received: "
                f"{count} in {first} and {length} in {name}"
            )
    if not count:
        raise ValueError(
            f"There must be at least one example. Received: an empty {first}"
        )
    return count


def _collect_lengths(data, name, lengths):
    if isinstance(data, tuple):
        for at, part in enumerate(data):
            _collect_lengths(part, f"{name}[{at}]", lengths)
    elif isinstance(data, dict):
        for key, part in data.items():
            _collect_lengths(part, f"{name}[{key!r}]", lengths)
    elif data is not None:
        if data.ndim > 1 and not data.shape[1]:
            raise ValueError(
                f"{name} must hold sequences of one token or more. Received: "
                f"an array of shape {data.shape}"
            )
        lengths[name] = len(data)


def split_off(data, share):
    """Returns the examples without their last share, and that share.

    Args:
        data: Nested arrays.
        share: Float, `validation_split` of `keras.Model.fit`.
    """
    counts = {}
    _collect_lengths(data, "x", counts)
    count = next(iter(counts.values()))
    kept = math.floor(count * (1 - share))
    if not 0 < kept < count:
        raise ValueError(
            "validation_split must leave examples to train on and to validate "
            f"on. Received: validation_split={share} of {count} examples"
        )
    return (
        map_parts(lambda array: array[:kept], data),
        map_parts(lambda array: array[kept:], data),
    )
