"""Batches for `fit` on any backend, drawn by seed and epoch."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_synth._backend.checks import check_number, check_positive
from keras_synth.types import Tensor

SIDES = ("encoder_", "decoder_")  # targets come last


class EpochBatches(keras.utils.PyDataset):
    """Batches whose rows depend only on a seed and the epoch.

    Subclasses implement `__getitem__` by `rows`.

    Args:
        count: Integer, number of examples.
        batch_size: Integer, examples per batch.
        shuffle: Whether rows have another random order in each epoch.
        drop_remainder: Whether to omit a smaller last batch.
        seed: Non-negative integer. The same seed makes the same batches on all
            backends.
        epoch: Non-negative integer, the first epoch; an attribute that
            `on_epoch_end` increases. Keras calls it after each epoch, and may
            iterate once before the first one. For exact numbers, set `epoch` in
            a callback's `on_epoch_begin`. In your own loop, call
            `on_epoch_end` after each pass.

    Example:

    >>> class Squares(keras_synth.training.EpochBatches):
    ...     def __getitem__(self, index):
    ...         return self.rows(index) ** 2
    >>> batches = Squares(count=5, batch_size=2)
    >>> sorted(int(i) for batch in batches for i in batch)
    [0, 1, 4, 9, 16]
    """

    def __init__(
        self,
        count: int,
        batch_size: int,
        shuffle: bool = True,
        drop_remainder: bool = False,
        seed: int = 0,
        epoch: int = 0,
    ) -> None:
        super().__init__()
        self.count = count
        self.batch_size = check_positive("batch_size", batch_size)
        self.shuffle, self.drop_remainder = shuffle, drop_remainder
        self.seed = check_number("seed", seed)
        self.epoch = check_number("epoch", epoch)
        self._planned: tuple[int, Any] | None = None

    def __len__(self):
        """The number of batches per epoch."""
        if self.drop_remainder:
            return self.count // self.batch_size
        return -(-self.count // self.batch_size)

    def on_epoch_end(self) -> None:
        """Starts the next epoch; Keras calls it."""
        self.epoch += 1

    def plan(self) -> Any:
        """The result of `make_plan`, made once for each epoch."""
        planned = self._planned
        if planned is None or planned[0] != self.epoch:
            self._planned = planned = self.epoch, self.make_plan(self.epoch)
        return planned[1]

    def make_plan(self, epoch: int) -> Any:
        """Returns the rows of an epoch, in order."""
        if not self.shuffle:
            return np.arange(self.count)
        return np.random.default_rng((self.seed, epoch)).permutation(self.count)

    def rows(self, index: int) -> Tensor:
        """Returns the rows of a batch."""
        first = index * self.batch_size
        return self.plan()[first : first + self.batch_size]


class LengthBuckets(EpochBatches):
    """Batches of sequences of similar length, for `fit` on any backend.

    The length of a batch is the least of `lengths` that fits all of its
    sequences, both source and target. Because JAX and XLA compile for each
    shape, there are few lengths, and all batches except one have `batch_size`
    examples: sequences that do not fill a batch move to the next length.

    Args:
        features: Dictionary of arrays or tensors `(N, T)`, as from
            preprocessors, including `"padding_mask"`, nonzero for real tokens,
            which come first. Or of arrays `(N, S)` and `(N, T)` whose names
            start with `"encoder_"` and `"decoder_"`.
        labels: Array or tensor `(N, ...)`.
        batch_size: Integer, examples per batch.
        lengths: Integers, the lengths in tokens to cut batches to, in addition
            to `T`.
        shuffle: Whether examples and batches have another random order in each
            epoch. Otherwise they are always ordered by length.
        drop_remainder: Whether to omit the examples that do not fill the last
            batch, drawn from all examples in each epoch.
        seed: As for `EpochBatches`, like `epoch`.
        sample_weight: Optional array or tensor `(N, T)`, for generative models.
            Labels are then also `(N, T)`, and batches contain all three, with
            weights as floats.

    Raises:
        ValueError: If an argument is out of range, or padding comes first.

    Example:

    ```python
    ids = np.random.default_rng(0).integers(1, 100, (8, 64))
    mask = np.arange(64) < np.array([[9, 20, 30, 31, 40, 50, 60, 64]]).T
    batches = keras_synth.training.LengthBuckets(
        {"token_ids": ids, "padding_mask": mask},
        labels=np.arange(8) % 2,
        batch_size=4,
        lengths=[32, 64],
    )
    x, y = batches[0]
    print(len(batches))  # 2
    ```
    """

    def __init__(
        self,
        features: Any,
        labels: Any,
        batch_size: int,
        lengths: Sequence[int] = (),
        shuffle: bool = True,
        drop_remainder: bool = False,
        seed: int = 0,
        epoch: int = 0,
        sample_weight: Tensor | None = None,
    ) -> None:
        self.features = {k: _array(x) for k, x in features.items()}
        self.labels = _array(labels)
        self.sample_weight = sample_weight
        masks = _masks(self.features)
        _check_examples(self.features, masks, self.labels)
        if sample_weight is not None:
            self.sample_weight = _array(sample_weight).astype("float32")
            _check_tokens(masks, self.labels, self.sample_weight)
        longest = max(mask.shape[1] for mask in masks.values())
        shorter = {check_positive("lengths", x) for x in lengths}
        self.lengths = np.array(
            [*sorted(x for x in shorter if x < longest), longest]
        )
        super().__init__(
            len(self.labels), batch_size, shuffle, drop_remainder, seed, epoch
        )
        real = np.max(
            [(mask != 0).sum(axis=1) for mask in masks.values()], axis=0
        )
        self._buckets: Any = np.searchsorted(self.lengths, real)

    def __getitem__(self, index):
        length, rows = self.plan()[index]
        features = {k: x[rows, :length] for k, x in self.features.items()}
        if self.sample_weight is None:
            return features, self.labels[rows]
        tokens = self.labels, self.sample_weight
        return features, *(x[rows, :length] for x in tokens)

    def make_plan(self, epoch: int) -> Any:
        """The batches of an epoch, as `(length, row indices)`."""
        rows = np.arange(self.count)
        rng = np.random.default_rng((self.seed, epoch))
        if self.shuffle or self.drop_remainder:
            rng.shuffle(rows)
        if self.drop_remainder:
            # Before sorting, after which the last rows are the longest.
            rows = rows[: len(self) * self.batch_size]
        if not self.shuffle:
            rows.sort()
        # The length of a batch is that of its last row, because rows are
        # ordered by bucket.
        rows = rows[np.argsort(self._buckets[rows], kind="stable")]
        batches = [
            rows[start : start + self.batch_size]
            for start in range(0, len(rows), self.batch_size)
        ]
        plan = [(int(self.lengths[self._buckets[b[-1]]]), b) for b in batches]
        if self.shuffle:
            plan = [plan[i] for i in rng.permutation(len(plan))]
        # On TensorFlow, Keras learns from the first two batches which axes
        # vary. Those of sources and targets are cut to different lengths.
        lengths = [length for length, _ in plan]
        ends = {lengths.index(min(lengths)), lengths.index(max(lengths))}
        others = [i for i in range(len(plan)) if i not in ends]
        return [plan[i] for i in (*sorted(ends), *others)]


def _array(values):
    if isinstance(values, np.ndarray):
        return values
    return keras.ops.convert_to_numpy(values)


def _masks(features):
    """The padding masks, by the prefixes of their features' names."""
    masks = {
        side: features[f"{side}padding_mask"]
        for side in ("", *SIDES)
        if f"{side}padding_mask" in features
    }
    if not masks:
        raise ValueError(
            'features must contain "padding_mask", or "encoder_padding_mask" '
            f'and "decoder_padding_mask". Received: {sorted(features)}'
        )
    return masks


def _check_examples(features, masks, labels):
    for start, mask in masks.items():
        shapes = {
            k: x.shape for k, x in features.items() if k.startswith(start)
        }
        if mask.ndim != 2 or len({*shapes.values()}) > 1 or not len(mask):
            raise ValueError(
                "All features of a sequence must have the same shape (N, T), "
                f"with N at least 1. Received: {shapes}"
            )
        real = mask != 0
        if (real[:, 1:] > real[:, :-1]).any():
            raise ValueError(
                f"`{start}padding_mask` must have padding only on the right, "
                "where batches are cut. Received: padding before a real token"
            )
        if len(labels) != len(mask):
            raise ValueError(
                "There must be one label per example. Received: "
                f"{len(mask)} examples, labels of shape {labels.shape}"
            )


def _check_tokens(masks, labels, sample_weight):
    expected = [*masks.values()][-1].shape
    if not labels.shape == sample_weight.shape == expected:
        raise ValueError(
            f"labels and sample_weight must both have the shape {expected} of "
            f"the targets. Received: {labels.shape} and {sample_weight.shape}"
        )
