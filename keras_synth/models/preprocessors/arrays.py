"""NumPy functions in the pipelines of TensorFlow and Python."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np


def in_graph(data: Any) -> bool:
    """Whether data contain symbolic tensors of TensorFlow."""
    return any(
        hasattr(getattr(part, "flat_values", part), "graph")
        for part in keras.tree.flatten(data)
    )


def call_numpy(
    function: Callable[..., Any], data: Any, dtypes: Any, shapes: Any
) -> Any:
    """Calls a NumPy function on tensors, also in a TensorFlow graph.

    A ragged tensor of rank 2 becomes a list of rows. `dtypes` and `shapes` are
    those of the function's results.
    """
    if not in_graph(data):
        return function(*map(as_array, data))
    import tensorflow as tf

    ragged = [isinstance(part, tf.RaggedTensor) for part in data]

    def run(*parts):
        given = iter(parts)
        return function(
            *(
                np.split(next(given), next(given)[1:-1])
                if is_ragged
                else next(given)
                for is_ragged in ragged
            )
        )

    parts = tf.nest.flatten(list(data), expand_composites=True)
    outputs = tf.numpy_function(run, parts, [tf.as_dtype(x) for x in dtypes])
    for output, shape in zip(outputs, shapes, strict=True):
        output.set_shape(shape)
    return outputs


def as_array(part: Any) -> Any:
    """Returns a NumPy array, rows of a ragged tensor, or a symbolic tensor."""
    if isinstance(part, (list, str)) or in_graph([part]):
        return part
    if hasattr(part, "to_list"):  # a ragged tensor
        return part.to_list()
    if keras.ops.is_tensor(part):
        return keras.ops.convert_to_numpy(part)
    return np.asarray(part)


def as_integers(mask: Any) -> Any:
    """Returns a boolean array or TensorFlow tensor as int32."""
    if not in_graph([mask]):
        return as_array(mask).astype("int32")
    import tensorflow as tf

    return tf.cast(mask, "int32")


def next_in_rows(x: Any) -> Any:
    """Returns the next number at each place, and the first at the last."""
    if not in_graph([x]):
        return np.roll(x, -1, axis=-1)
    import tensorflow as tf

    return tf.roll(x, -1, axis=-1)
