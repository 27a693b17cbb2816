"""Datasets of TensorFlow, on any backend: imported where they are used."""

import numpy as np
from keras.utils import pack_x_y_sample_weight, unpack_x_y_sample_weight

from keras_synth.models.examples import map_parts


def is_tensorflow_dataset(x):
    """Whether x is a `tf.data.Dataset`, without importing TensorFlow."""
    return any(
        kind.__module__.startswith("tensorflow.")
        and kind.__name__ == "DatasetV2"
        for kind in type(x).__mro__
    )


def strings_of(dataset):
    """Reads the strings of a `tf.data.Dataset`, single or in batches.

    Returns:
        Tuple of an array of bytes, or a tuple of arrays, and the size of a
        batch, `None` where elements are single strings.

    Raises:
        ValueError: If the dataset holds other than strings, nothing, or has no
            end.
    """
    specs = dataset.element_spec
    parts = specs if isinstance(specs, tuple) else (specs,)
    names = [getattr(getattr(x, "dtype", None), "name", None) for x in parts]
    if {*names} != {"string"}:
        raise ValueError(
            "A dataset for a model that reads strings must hold strings, or "
            f"tuples of strings. Received: a dataset of {specs}"
        )
    if dataset.cardinality() == -1:
        raise ValueError(
            "A dataset is read to its end before training starts. Leave out "
            "`repeat()`, and give `epochs`. Received: a dataset without end"
        )
    rows = [
        row if isinstance(row, tuple) else (row,)
        for row in dataset.as_numpy_iterator()
    ]
    if not rows:
        raise ValueError(
            f"A dataset must hold texts. Received: {dataset}, which is empty"
        )
    found = tuple(
        np.concatenate([np.atleast_1d(x) for x in part])
        for part in zip(*rows, strict=True)
    )
    single = np.ndim(rows[0][0]) == 0
    texts = found if isinstance(specs, tuple) else found[0]
    return texts, None if single else len(rows[0][0])


def tensorflow_batches(data, count, batch_size, seed):
    """Returns a `tf.data.Dataset` of batches.

    Args:
        data: Nested arrays.
        count: Integer, the number of examples.
        batch_size: Integer. The last batch may be smaller.
        seed: Integer to have another random order in each epoch, or `None` to
            keep the order.
    """
    try:
        import tensorflow as tf
    except ImportError:
        raise ImportError(
            "Raw data in memory needs a data loader: pip install grain, or "
            "tensorflow"
        ) from None

    with tf.device("cpu"):
        data = map_parts(tf.convert_to_tensor, data)
    places = tf.data.Dataset.range(count)
    if seed is not None:
        places = places.shuffle(count, seed, reshuffle_each_iteration=True)
    return places.batch(batch_size).map(
        lambda at: map_parts(lambda part: tf.gather(part, at), data),
        num_parallel_calls=tf.data.AUTOTUNE,
    )


def label_type(dataset):
    """Returns `"string"`, `"integer"`, `"other"`, or `None` without labels."""
    _, labels, _ = unpack_x_y_sample_weight(dataset.element_spec)
    if labels is None:
        return None
    dtype = getattr(labels, "dtype", None)
    if dtype is not None and dtype.name == "string":
        return "string"
    return "integer" if getattr(dtype, "is_integer", False) else "other"


def map_labels(dataset, count, class_names):
    """Checks the labels of a dataset of batches, and numbers names.

    Args:
        dataset: A `tf.data.Dataset` of `(x, y)` or `(x, y, sample_weight)`, y
            being strings, or integers.
        count: Integer, integer labels lie below it.
        class_names: Sequence of strings, or `None` for integers.

    Returns:
        The same with integers. Reading a batch with a wrong label raises
        TensorFlow's `InvalidArgumentError`.
    """
    import tensorflow as tf

    def number(*batch):
        x, y, sample_weight = unpack_x_y_sample_weight(batch)
        if y.dtype == tf.string:
            same = tf.equal(y[..., None], tf.constant(class_names))
            known = tf.reduce_any(same, -1)
            wanted = f"Labels must be among class_names={class_names}."
            numbers = tf.argmax(tf.cast(same, tf.int32), -1, tf.int32)
        else:
            known = tf.logical_and(y >= 0, y < tf.cast(count, y.dtype))
            wanted = f"Labels must lie from 0 to {count - 1}."
            numbers = y
        wrong = tf.boolean_mask(y, tf.logical_not(known))
        check = tf.debugging.Assert(tf.reduce_all(known), [wanted, wrong])
        with tf.control_dependencies([check]):
            numbers = tf.identity(numbers)
        return pack_x_y_sample_weight(x, numbers, sample_weight)

    return dataset.map(number, num_parallel_calls=tf.data.AUTOTUNE)
