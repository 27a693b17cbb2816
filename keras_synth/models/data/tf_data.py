"""Datasets of TensorFlow, on any backend: imported where they are used."""

import keras
import numpy as np
from keras.utils import pack_x_y_sample_weight, unpack_x_y_sample_weight

from keras_synth.models.data.examples import map_parts


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


def check_batched(dataset, least, name="x"):
    """Raises unless a `tf.data.Dataset` delivers batches.

    Args:
        dataset: A `tf.data.Dataset` of x, `(x, y)` or `(x, y, sample_weight)`.
        least: Integer, how many axes a batch of x has at least: 1 for texts,
            2 for tokens.
        name: String, what errors call it.
    """
    x, *others = unpack_x_y_sample_weight(dataset.element_spec)
    for part, axes in ((x, least), (others, 1)):
        for spec in keras.tree.flatten(part):
            rank = getattr(getattr(spec, "shape", None), "rank", None)
            if rank is not None and rank < axes:
                raise ValueError(
                    "A dataset must deliver batches: pass dataset.batch(32). "
                    f"Received: {name} with elements {dataset.element_spec}"
                )


def map_checked(dataset, check_texts, encode, prefix=""):
    """Has Python look at each batch of a dataset, and number its labels.

    Args:
        dataset: A `tf.data.Dataset` of x, `(x, y)` or `(x, y, sample_weight)`.
        check_texts: Function of x, where it is strings, as arrays, and of
            what errors call it.
        encode: Function of labels, an array, and of what errors call them. It
            returns labels of the same dtype, for strings of int32. `None` to
            leave out labels and weights.
        prefix: String, what errors put before the number of a batch.

    Returns:
        The same with those labels. Reading a batch raises what a function
        raised in it, wrapped by TensorFlow.
    """
    import tensorflow as tf

    def look(at, batch):
        x, y, sample_weight = unpack_x_y_sample_weight(batch)
        if encode is None:
            y = sample_weight = None
        texts = tf.nest.flatten(x)
        if any(part.dtype != tf.string for part in texts):
            texts = []
        dtype = tf.bool
        if y is not None:
            dtype = tf.int32 if y.dtype == tf.string else y.dtype

        def run(at, *parts):
            name = f"{prefix}batch {at}"
            if texts:
                given = tf.nest.pack_sequence_as(x, parts[: len(texts)])
                check_texts(given, f"{name}, x")
            if y is None:
                return np.array(True)
            labels = encode(parts[-1], f"{name}, y")
            return np.asarray(labels, dtype.as_numpy_dtype)

        labels = [] if y is None else [y]
        found = tf.numpy_function(run, [at, *texts, *labels], dtype)
        with tf.control_dependencies([found]):
            x = tf.nest.map_structure(tf.identity, x)
        if y is not None:
            found.set_shape(y.shape)
            y = found
        return pack_x_y_sample_weight(x, y, sample_weight)

    look = tf.autograph.experimental.do_not_convert(look)
    return dataset.enumerate().map(look, num_parallel_calls=tf.data.AUTOTUNE)
