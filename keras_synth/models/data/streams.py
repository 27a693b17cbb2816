"""Data that come batch by batch: each batch goes through a function."""

import contextlib
import functools
import numbers
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np

from keras_synth.models.data.examples import check_lengths, map_parts
from keras_synth.training.batches import EpochBatches

try:
    import grain
except ImportError:
    grain = None


def is_stream(data):
    """Whether data are batches that Keras, not KerasHub, reads."""
    return (
        isinstance(data, (types.GeneratorType, keras.utils.PyDataset))
        or is_torch_loader(data)
        or is_grain_loader(data)
    )


def is_grain_dataset(data):
    """Whether data are a dataset of Grain."""
    return grain is not None and isinstance(
        data, (grain.MapDataset, grain.IterDataset)
    )


def is_grain_loader(data):
    """Whether data are a `DataLoader` of Grain."""
    return grain is not None and isinstance(data, grain.DataLoader)


def is_torch_loader(data):
    """Whether data are a PyTorch `DataLoader`, without importing PyTorch."""
    return any(
        kind.__module__.startswith("torch.utils.data")
        and kind.__name__ == "DataLoader"
        for kind in type(data).__mro__
    )


def mapped(data: Any, function: Callable[..., Any]) -> Any:
    """Applies a function to each batch, when Keras asks for it.

    Args:
        data: A generator, a `keras.utils.PyDataset`, a PyTorch `DataLoader`,
            or a dataset or `DataLoader` of Grain. Nothing is read yet.
        function: Function of a batch, its number and the number of the pass,
            both from 0, to a tuple that Keras takes. A generator, which is
            read once, has one pass.

    Returns:
        Data of a kind that Keras takes, as long as the given ones.
    """
    if isinstance(data, types.GeneratorType):
        return _generated(data, function)
    if isinstance(data, keras.utils.PyDataset):
        _check_not_empty(data.num_batches)
        return _MappedBatches(data, function)
    if is_torch_loader(data):
        return _mapped_loader(data, function)
    if is_grain_loader(data):
        raise ValueError(
            "Batches of a grain.DataLoader must go through the preprocessor. "
            "Pass a grain.MapDataset instead: grain.MapDataset.source(examples)"
            f".batch(32). Received: {type(data).__name__}"
        )
    if isinstance(data, grain.MapDataset):
        return mapped(_GrainBatches(data), function)
    return data.map_with_index(lambda at, batch: function(batch, at, 0))


def unpacked(batch: Any, name: str) -> tuple[Any, Any, Any]:
    """Splits a batch into `(x, y, sample_weight)`, as Keras does.

    Args:
        batch: Tuple or list of one to three; or x alone, a list of texts,
            array, tensor or dictionary.
        name: String, what errors call the batch.

    Returns:
        Tuple of three, `None` for what is not there. Inside them tuples of
        texts or numbers, which are columns of examples, become lists; other
        tuples are structure.
    """
    alone = isinstance(batch, list) and (not batch or _is_column(batch))
    if alone or not isinstance(batch, (tuple, list)):
        return _columns(batch), None, None
    if not 1 <= len(batch) <= 3:
        raise ValueError(
            "Each batch must be a tuple (x,), (x, y) or (x, y, sample_weight). "
            f"Received: {name} with {len(batch)} parts"
        )
    return (*map(_columns, batch), None, None)[:3]


@contextlib.contextmanager
def own_errors() -> Iterator[Callable[..., Any]]:
    """Has an error of a function come out of a data pipeline as it is.

    TensorFlow wraps what is raised inside a dataset in an error of its own,
    with pages of its graph; Grain adds lines.

    Yields:
        Decorator of the functions that the pipeline calls.
    """
    raised: list[tuple[Exception, str]] = []

    def watched(function):
        @functools.wraps(function)
        def watch(*args, **kwargs):
            try:
                return function(*args, **kwargs)
            except Exception as error:
                raised.append((error, str(error)))
                raise

        return watch

    try:
        yield watched
    except Exception as error:
        for inner, message in raised:
            if message in str(error) and message != str(error):
                inner.args = (message,)  # Grain adds lines to it
                raise inner from None
        raise


class ArrayBatches(EpochBatches):
    """Batches of examples in memory.

    Args:
        data: Tuple of nested arrays and `None`: x, y, sample_weight.
        batch_size: Integer. The last batch may be smaller.
        seed: Integer to have another random order in each epoch, or `None` to
            keep the order.
    """

    def __init__(self, data, batch_size, seed=None):
        super().__init__(seed, 0)
        self.data, self.batch_size = data, batch_size
        self.count = check_lengths(x=data)

    def __len__(self):
        return -(-self.count // self.batch_size)

    def make_plan(self, epoch):
        if self.seed is None:
            return np.arange(self.count)
        rng = np.random.default_rng((self.seed, epoch))
        return rng.permutation(self.count)

    def __getitem__(self, index):
        first = index * self.batch_size
        places = self.plan(self.epoch)[first : first + self.batch_size]
        return map_parts(lambda part: part[places], self.data)


def _is_column(part):
    return bool(part) and any(
        all(isinstance(entry, kind) for entry in part)
        for kind in ((str, bytes), numbers.Number)
    )


def _columns(part, lists=False):
    """Tuples of texts or numbers become lists; `lists` are structure, too."""
    if isinstance(part, (tuple, list)) and _is_column(part):
        return list(part)
    if isinstance(part, tuple) or (lists and isinstance(part, list)):
        return tuple(_columns(entry, lists) for entry in part)
    if isinstance(part, dict):
        return {name: _columns(entry, lists) for name, entry in part.items()}
    return part


def _check_not_empty(count):
    if count == 0:
        raise ValueError(
            "There must be at least one batch. Received: data without any"
        )


def _generated(batches, function):
    for at, batch in enumerate(batches):
        yield function(batch, at, 0)


class _MappedBatches(keras.utils.PyDataset):
    """A `PyDataset` whose batches go through a function."""

    def __init__(self, dataset, function):
        super().__init__(
            workers=dataset.workers,
            use_multiprocessing=dataset.use_multiprocessing,
            max_queue_size=dataset.max_queue_size,
        )
        self.dataset, self.function, self.passes = dataset, function, 0

    @property
    def num_batches(self):
        return self.dataset.num_batches

    def __getitem__(self, index):
        return self.function(self.dataset[index], index, self.passes)

    def on_epoch_begin(self):
        self.dataset.on_epoch_begin()

    def on_epoch_end(self):
        self.dataset.on_epoch_end()
        self.passes += 1


class _GrainBatches(keras.utils.PyDataset):
    """A `grain.MapDataset` of batches; Keras cannot ask it for its length."""

    def __init__(self, dataset):
        super().__init__()
        self.dataset = dataset

    @property
    def num_batches(self):
        endless = len(self.dataset) >= sys.maxsize
        return None if endless else len(self.dataset)

    def __getitem__(self, index):
        return self.dataset[index]


def _mapped_loader(loader, function):
    torch = sys.modules["torch.utils.data"]  # the loader is of it
    # It turns tuples of examples into lists of columns.
    lists = loader.collate_fn is torch.default_collate

    class Batches(torch.IterableDataset):
        def __init__(self):
            self.passes = -1

        def __iter__(self):
            self.passes += 1
            for at, batch in enumerate(loader):
                batch = _columns(batch, lists) if lists else batch
                yield function(batch, at, self.passes)

    class SizedBatches(Batches):
        def __len__(self):
            return len(loader)

    sized = hasattr(loader.dataset, "__len__")
    _check_not_empty(len(loader) if sized else None)
    batches = SizedBatches() if sized else Batches()
    return torch.DataLoader(batches, batch_size=None)
