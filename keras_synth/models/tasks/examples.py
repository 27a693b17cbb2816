"""Datasets for KerasHub's `fit` from examples in memory."""

import functools
import logging
import types
from typing import Any

import grain
import keras
import numpy as np
from keras.utils import pack_x_y_sample_weight, unpack_x_y_sample_weight

BATCH_SIZE = 32  # Keras' default

# Grain writes of KerasHub's read-ahead in each `fit`.
logging.getLogger("absl").addFilter(
    lambda record: "prefetch_buffer_size" not in str(record.msg)
)


def is_dataset(x: Any) -> bool:
    """Whether x is a dataset of TensorFlow or Grain."""
    return any(
        kind.__module__.partition(".")[0] in ("tensorflow", "grain")
        and "Dataset" in kind.__name__
        for kind in type(x).__mro__
    )


def check_not_a_stream(x: Any) -> None:
    """Raises if x is a stream of batches that KerasHub cannot map."""
    if isinstance(x, (types.GeneratorType, keras.utils.PyDataset)) or (
        type(x).__name__ == "DataLoader"
    ):
        raise ValueError(
            "KerasHub applies a preprocessor only to examples in memory and to "
            "datasets of TensorFlow and Grain. Use "
            "grain.MapDataset.source(examples).batch(32) or "
            "tf.data.Dataset.from_generator(...), or set model.preprocessor = "
            f"None and pass tokenized batches. Received: {type(x).__name__}"
        )


def check_batched(x: Any) -> None:
    """Raises if x is a single example, as in a dataset without batches."""
    columns = x.values() if isinstance(x, dict) else x
    first, *_ = columns if isinstance(x, (dict, tuple)) else [x]
    if isinstance(first, str) or getattr(first, "shape", None) == ():
        raise ValueError(
            f"Pass dataset.batch(32), not single texts. Received: {x!r:.60}"
        )


def check_weights(weights: Any, name: str) -> None:
    """Raises unless the weights of examples are finite numbers."""
    if weights is None:
        return
    numbers = weights.dtype.kind in "biuf"
    wrong = weights[~np.isfinite(weights)] if numbers else weights
    if len(wrong):
        raise ValueError(
            f"{name} must have a finite number for each example. Received: "
            f"{wrong.tolist()[0]!r}"
        )


def batches_of(
    data: Any, batch_size: int | None = None, seed: int | None = None
) -> Any:
    """Returns a dataset of Grain of `(x, y, sample_weight)`, `columns`.

    With a seed it is shuffled, in another order in each epoch.
    """
    count, batch_size = count_of(data), batch_size or BATCH_SIZE
    check_batches(count, batch_size)
    rows = grain.MapDataset.range(count)
    if seed is not None:
        # With some seeds Grain's shuffle does not mix sorted classes well.
        order = np.random.default_rng(seed).permutation(count)
        rows = grain.MapDataset.source(order).seed(seed).shuffle()
    rows = rows.batch(batch_size)
    return rows.map(functools.partial(_take, pack_x_y_sample_weight(*data)))


def split(data: Any, share: float) -> tuple[Any, Any]:
    """Returns the first examples, and the last ones for validation."""
    count = count_of(data)
    first = int(count * (1 - share))
    if not 0 < first < count:
        raise ValueError(
            "validation_split must leave examples for training and for "
            f"validation. Received: validation_split={share} of {count} "
            "examples"
        )
    return _take(data, slice(first)), _take(data, slice(first, None))


def with_draws(dataset: Any, seed: int) -> Any:
    """Returns a dataset `(x, draws)`, with an integer for each example.

    Draws differ in each epoch, and depend on the seed.
    """
    if type(dataset).__module__.startswith("tensorflow"):
        return _with_tensorflow_draws(dataset, seed)
    if isinstance(dataset, grain.MapDataset):
        return dataset.seed(seed).random_map(_with_draws)
    # It restarts in each epoch, and would draw the same integers.
    rng = np.random.default_rng(seed)
    return dataset.map(lambda batch: _with_draws(batch, rng))


def _first(batch):
    """The texts of a batch without labels."""
    x, y, sample_weight = unpack_x_y_sample_weight(batch)
    if y is not None or sample_weight is not None:
        raise ValueError(
            "A masked language model has no labels. A dataset must contain "
            "only texts, or ((first, second),) for pairs. Received: a batch "
            "(x, y)"
        )
    return x


def _with_draws(batch, rng):
    x = _first(batch)
    return x, rng.integers(2**31, size=len(keras.tree.flatten(x)[0]))


def _with_tensorflow_draws(dataset, seed):
    import tensorflow as tf

    def draw(batch, number):
        x = _first(batch)
        count = tf.shape(tf.nest.flatten(x)[0])[:1]
        draws = tf.random.stateless_uniform(
            count, (seed, number), maxval=2**31 - 1, dtype=tf.int32
        )
        return x, draws

    numbers = tf.data.Dataset.random(seed, rerandomize_each_iteration=True)
    return tf.data.Dataset.zip(dataset, numbers).map(draw)


def count_of(data: Any, prefix: str = "") -> int:
    """Returns the number of examples, or raises if columns differ in it."""
    counts = [len(x) for x in keras.tree.flatten(data) if x is not None]
    if counts and not any(counts):
        raise ValueError(
            f"{prefix}x must have at least one example. Received: 0 examples"
        )
    if len({*counts}) != 1:
        raise ValueError(
            f"{prefix}x, y and sample_weight must have the same number of "
            f"examples. Received: {counts} examples"
        )
    return counts[0]


def _take(data, rows):
    return keras.tree.map_structure(
        lambda column: None if column is None else column[rows], data
    )


def check_batches(count: int, batch_size: int | None = None) -> None:
    """Raises unless devices can share all batches evenly.

    JAX would raise only at the last batch of the first epoch.
    """
    batch_size = batch_size or BATCH_SIZE
    distribution = keras.distribution.distribution()
    if distribution is None:
        return
    # A process receives its part of a batch.
    shares = distribution.num_model_replicas // distribution.num_processes
    shares = max(1, shares)
    if min(batch_size, count) % shares or count % batch_size % shares:
        raise ValueError(
            f"{shares} devices must share each batch evenly, including the "
            "last one. Choose a `batch_size` and a number of examples "
            f"divisible by {shares}. Received: batch_size={batch_size}, "
            f"{count} examples"
        )
