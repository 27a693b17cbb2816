"""KerasHub's data pipeline, for tasks on texts."""

import logging
from typing import Any

import numpy as np
from keras.utils import pack_x_y_sample_weight, unpack_x_y_sample_weight

from keras_synth._backend.distributions import check_batches
from keras_synth.models.data.examples import (
    as_arrays,
    as_lists,
    check_lengths,
    map_parts,
)
from keras_synth.models.data.reading import (
    BATCH_SIZE,
    BatchesMixin,
    delivers_batches,
)
from keras_synth.models.data.streams import is_grain_dataset, is_stream
from keras_synth.models.data.tf_data import (
    check_batched,
    map_checked,
    tensorflow_batches,
)
from keras_synth.types import Tensor

try:
    import grain
except ImportError:
    grain = None

# KerasHub reads ahead by fewer batches than Grain has threads, which Grain says
# anew for each dataset.
logging.getLogger("absl").addFilter(
    lambda record: "prefetch_buffer_size" not in record.getMessage()
)


class TrainingDataMixin(BatchesMixin):
    """Has KerasHub's pipeline read examples in memory, and datasets.

    It reads ahead. For tasks whose preprocessor makes a batch of a batch.
    Mixed into a KerasHub task before its base class.
    """

    def fit(
        self,
        x: Any = None,
        y: Tensor | None = None,
        batch_size: int | None = None,
        sample_weight: Tensor | None = None,
        validation_data: Any = None,
        validation_split: float | None = None,
        **kwargs: Any,
    ) -> Any:
        if is_stream(x) or is_stream(validation_data):
            return BatchesMixin.fit(
                self,
                x,
                y,
                batch_size,
                sample_weight,
                validation_data,
                validation_split,
                **kwargs,
            )
        shuffle = kwargs.pop("shuffle", True)
        own_size = kwargs.pop("validation_batch_size", None) or batch_size
        self._number_class_weight(kwargs)
        data, validation_data = self._checked_fit(
            (x, y, sample_weight), validation_data, validation_split
        )
        with self._reading() as watched:
            if validation_data is not None:
                validation_data = self._raw_batches(
                    validation_data, watched, own_size, prefix="validation_"
                )
            if delivers_batches(x):
                x = self._checked_dataset(x, watched)
            else:
                seed = np.random.randint(2**31 - 1) if shuffle else None
                x = self._raw_batches(data, watched, batch_size, seed)
                y = batch_size = sample_weight = None
            return super(BatchesMixin, self).fit(
                x,
                y,
                batch_size,
                sample_weight,
                validation_data,
                **{**kwargs, "shuffle": False},
            )

    fit.__doc__ = BatchesMixin.fit.__doc__

    def evaluate(
        self,
        x: Any = None,
        y: Tensor | None = None,
        batch_size: int | None = None,
        sample_weight: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Scores the model, as `keras.Model.evaluate`; data as in `fit`."""
        if is_stream(x) or kwargs.get("_use_cached_eval_dataset"):
            return BatchesMixin.evaluate(
                self, x, y, batch_size, sample_weight, **kwargs
            )
        data = self._checked((x, y, sample_weight))
        with self._reading() as watched:
            if delivers_batches(x):
                x = self._checked_dataset(x, watched)
            else:
                x = self._raw_batches(data, watched, batch_size)
                y = batch_size = sample_weight = None
            return super(BatchesMixin, self).evaluate(
                x, y, batch_size, sample_weight, **kwargs
            )

    def predict(
        self,
        x: Any = None,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Returns outputs as a NumPy array; x as in `fit`."""
        if is_stream(x):
            return BatchesMixin.predict(self, x, batch_size, **kwargs)
        with self._reading() as watched:
            if delivers_batches(x):
                x = self._checked_dataset(x, watched, labels=False)
            else:
                data = self._checked_inputs(x, "x"), None, None
                x = self._raw_batches(data, watched, batch_size)
                batch_size = None
            return super(BatchesMixin, self).predict(x, batch_size, **kwargs)

    def _raw_batches(self, data, watched, batch_size, seed=None, prefix=""):
        """A dataset of what `_checked` returns."""
        if delivers_batches(data[0]):
            return self._checked_dataset(data[0], watched, prefix)
        self._build_preprocessor(data)
        return batches(data, batch_size, seed)

    def _build_preprocessor(self, data):
        """Builds it by an example: threads that read batches would do so."""
        first = map_parts(lambda part: part[:1], data)
        self.preprocess_samples(*as_lists(first))

    def _checked_dataset(self, dataset, watched, prefix="", labels=True):
        """A dataset of TensorFlow or Grain whose batches are looked at."""
        if is_grain_dataset(dataset):
            check = watched(self._checked_batch)
            return dataset.map_with_index(
                lambda at, batch: pack_x_y_sample_weight(
                    *check(batch, f"{prefix}batch {at}", labels)
                )
            )
        self._check_specs(dataset, prefix, labels)
        if not self._reads_texts() and not self._has_classes():
            return dataset
        return map_checked(
            dataset,
            watched(as_arrays),
            watched(self._checked_labels) if labels else None,
            prefix,
        )

    def _check_specs(self, dataset, prefix, labels):
        """Raises unless a `tf.data.Dataset` delivers what the task takes."""
        tokens = self.preprocessor is None
        check_batched(dataset, 2 if tokens else 1, f"{prefix}x")
        x, y, sample_weight = unpack_x_y_sample_weight(dataset.element_spec)
        if self._reads_texts():
            self._check_form(x, f"{prefix}x")
        if labels and self._reads_texts():
            self._check_extras(y, sample_weight, prefix)
        if labels and y is None:
            self._checked_labels(None, f"{prefix}y")

    def _of_tensorflow(self, dataset, watched, prefix, training, labels):
        dataset = self._checked_dataset(dataset, watched, prefix, labels)
        return dataset.map(self.preprocess_samples)


def batches(data, batch_size=None, seed=None):
    """Returns a dataset of batches, of Grain or, where that is not, TensorFlow.

    Args:
        data: Tuple of nested arrays and `None`: x, y, sample_weight.
        batch_size: Integer, by default 32. The last batch may be smaller.
        seed: Integer to have another random order in each epoch, or `None` to
            keep the order.

    Returns:
        `grain.MapDataset` or `tf.data.Dataset`.
    """
    data = pack_x_y_sample_weight(*data)
    count = check_lengths(x=data)
    batch_size = batch_size or BATCH_SIZE
    check_batches(count, batch_size)
    # Places are shuffled, not examples: whole batches are then cut out.
    if grain is not None:
        places = grain.MapDataset.range(count)
        if seed is not None:
            places = places.shuffle(seed=seed)
        places = places.batch(batch_size)
        return places.map(lambda at: map_parts(lambda part: part[at], data))
    return tensorflow_batches(data, count, batch_size, seed)
