"""Datasets of TensorFlow, on any backend: imported where they are used."""

import keras
import numpy as np
from keras.utils import pack_x_y_sample_weight, unpack_x_y_sample_weight

from keras_synth.models.data.word_labels import without_padding


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


def check_sentences(dataset, name="x"):
    """Raises unless a `tf.data.Dataset` delivers batches of sentences.

    Args:
        dataset: A `tf.data.Dataset` of x, `(x, y)` or `(x, y, sample_weight)`.
        name: String, what errors call x.

    Returns:
        Tuple of its three specs, `None` for what is not there.
    """
    specs = unpack_x_y_sample_weight(dataset.element_spec)
    dtype = getattr(getattr(specs[0], "dtype", None), "name", None)
    rank = specs[0].shape.rank if dtype == "string" else 0
    if rank not in (None, 2):
        raise ValueError(
            "A dataset must deliver batches of sentences, strings of shape "
            "(batch, words): split texts by tf.strings.split, and pass "
            "dataset.ragged_batch(32) or dataset.padded_batch(32). Received: "
            f"{name} with elements {dataset.element_spec}"
        )
    return specs


def map_sentences(dataset, prepare, example):
    """Has Python make what Keras takes of each batch of sentences.

    Args:
        dataset: A `tf.data.Dataset` that `check_sentences` knows.
        prepare: Function of a batch, a tuple of sentences, labels and weights
            as far as they are there, and of its number, to nested arrays.
        example: What it makes of one sentence, which tells dtypes and shapes.

    Returns:
        A `tf.data.Dataset` of nested tensors like those of the example.
        Reading a batch raises what the function raised in it, wrapped by
        TensorFlow.
    """
    import tensorflow as tf

    specs = tf.nest.flatten(dataset.element_spec)
    ragged = [isinstance(spec, tf.RaggedTensorSpec) for spec in specs]
    found = tf.nest.flatten(example)

    def run(at, *parts):
        parts = iter(parts)
        batch = [
            _rows(next(parts), next(parts)) if split else next(parts)
            for split in ragged
        ]
        return tf.nest.flatten(prepare(without_padding(*batch), int(at)))

    def make(at, *batch):
        parts = tf.nest.flatten(batch, expand_composites=True)
        made = tf.numpy_function(run, [at, *parts], [x.dtype for x in found])
        for tensor, like in zip(made, found, strict=True):
            tensor.set_shape((None, *like.shape[1:]))
        return tf.nest.pack_sequence_as(example, made)

    make = tf.autograph.experimental.do_not_convert(make)
    return map_ahead(dataset.enumerate(), make)


def map_ahead(dataset, function):
    """Applies a function to elements before they are asked for."""
    import tensorflow as tf

    ahead = tf.data.AUTOTUNE
    return dataset.map(function, num_parallel_calls=ahead).prefetch(ahead)


def _rows(values, splits):
    """The rows of a ragged tensor."""
    return np.split(values, splits[1:-1])
