"""Examples in memory: whatever holds them, as NumPy arrays of one length."""

import math
import numbers

import keras
import numpy as np

from keras_synth.models.data.texts import plain_texts


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
            "Series, a tuple or dictionary of such, or batches of them. Put a "
            f"single example into a list. Received: {name}={data!r:.60}"
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
        return _numbers(array.tolist(), name)  # kept as objects
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
        return _numbers(data, name)
    if keras.ops.is_tensor(data):
        return keras.ops.convert_to_numpy(data)
    return np.asarray(data)


def _numbers(data, name):
    """Nested lists of numbers as an array, in Keras' widths where they fit."""
    try:
        array = np.array(data)
    except ValueError:
        raise ValueError(
            f"{name} must be rectangular: pad its rows to one length. "
            f"Received: {name}[0]={data[0]!r:.60}"
        ) from None
    if array.dtype.kind == "O":
        wrong = next(filter(_is_no_number, array.flat), array.flat[0])
        raise ValueError(
            f"{name} must hold texts, or numbers of at most 64 bits, and none "
            f"may be missing. Received: {wrong!r:.60} in {name}"
        )
    if array.dtype.kind == "f":
        return array.astype("float32")
    if array.dtype.kind == "i" and np.array_equal(array, array.astype("int32")):
        return array.astype("int32")
    return array


def _is_no_number(x):
    return not isinstance(x, numbers.Real) or abs(x) >= 2**63


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
        if not isinstance(data, list) and data.ndim > 1 and not data.shape[1]:
            raise ValueError(
                f"{name} must hold sequences of one token or more. Received: "
                f"an array of shape {data.shape}"
            )
        lengths[name] = len(data)


def check_form(x, name, pairs=True):
    """Raises unless x are texts, one for each example.

    Args:
        x: Nested arrays, or specs of tensors.
        name: String, what errors call them.
        pairs: Whether a tuple of texts goes, too.
    """
    if not all(map(_holds_texts, keras.tree.flatten(x))):
        dtypes = {str(part.dtype) for part in keras.tree.flatten(x)}
        raise ValueError(
            "The model has a preprocessor, which takes raw strings. For tokens "
            "build it with preprocessor=None, and set model.preprocessor "
            f"afterwards. Received: {name} of dtype {', '.join(sorted(dtypes))}"
        )
    if isinstance(x, dict) or (isinstance(x, tuple) and not pairs):
        received = [*x] if isinstance(x, dict) else f"a tuple of {len(x)}"
        wanted = ", or a tuple of texts for pairs" if pairs else ""
        raise ValueError(
            f"{name} must be texts{wanted}. Take the column of a table that "
            f"holds them. Received: {name} with {received}"
        )


def _holds_texts(part):
    kind = getattr(part.dtype, "kind", None)  # None: one of TensorFlow's
    return part.dtype.name == "string" if kind is None else kind in "OSTU"


def check_weights(weights, name):
    """Raises unless weights are numbers, or `None`."""
    for part in keras.tree.flatten(weights):
        if part is not None and part.dtype.kind not in "fiub":
            raise ValueError(
                f"{name} must hold numbers. Received: {name} of dtype "
                f"{part.dtype}"
            )


def check_extras(y, sample_weight, prefix):
    """Raises if there are labels or weights where tokens have their own.

    Args:
        y: Labels, which a preprocessor makes of the texts itself, or `None`.
        sample_weight: Weights, which it makes itself, or `None`.
        prefix: String, what errors put before these names.
    """
    for name, part in (("y", y), ("sample_weight", sample_weight)):
        if part is not None:
            raise ValueError(
                "A language model's labels are its texts, one weight for each "
                f"token. Leave out {name}, or tokenize the texts and pass a "
                "model with preprocessor=None all three. Received: "
                f"{prefix}{name} beside texts"
            )


def as_column(rows):
    """Returns rows of any lengths as an array of as many objects."""
    column = np.empty(len(rows), "object")
    for at, row in enumerate(rows):
        column[at] = row
    return column


def as_lists(data):
    """Arrays of Python's strings as lists, which preprocessors take."""
    return map_parts(
        lambda part: part.tolist() if _is_object(part) else part, data
    )


def _is_object(part):
    return isinstance(part, np.ndarray) and part.dtype.kind == "O"


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
