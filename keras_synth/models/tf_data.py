"""Datasets of TensorFlow, on any backend: imported where they are used."""

from keras.utils import pack_x_y_sample_weight, unpack_x_y_sample_weight

from keras_synth.models.examples import map_parts


def is_tensorflow_dataset(x):
    """Whether x is a `tf.data.Dataset`, without importing TensorFlow."""
    return any(
        kind.__module__.startswith("tensorflow.")
        and kind.__name__ == "DatasetV2"
        for kind in type(x).__mro__
    )


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
