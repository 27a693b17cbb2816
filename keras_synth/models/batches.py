"""Data of every kind for `fit`, `evaluate` and `predict` of the tasks."""

import logging
from typing import Any

import keras
import numpy as np
from keras.utils import pack_x_y_sample_weight, unpack_x_y_sample_weight

from keras_synth.distributions import check_batches
from keras_synth.models.examples import (
    as_arrays,
    check_lengths,
    map_parts,
    split_off,
)
from keras_synth.models.tf_data import (
    is_tensorflow_dataset,
    tensorflow_batches,
)
from keras_synth.types import Tensor

BATCH_SIZE = 32  # Keras' own

try:
    import grain
except ImportError:
    grain = None

# KerasHub reads ahead by fewer batches than Grain has threads, which Grain says
# anew for each dataset.
logging.getLogger("absl").addFilter(
    lambda record: "prefetch_buffer_size" not in record.getMessage()
)


class TrainingDataMixin:
    """Data of all common kinds for `fit`, `evaluate` and `predict`.

    KerasHub's pipeline takes lists, arrays and datasets of TensorFlow and
    Grain. Here pandas columns and tensors of any framework go as well, lengths
    and labels are checked before training starts, and `fit` brings examples
    into another random order for each epoch.

    A `keras.utils.PyDataset`, such as `keras_synth.datasets.LengthBuckets`,
    delivers tokenized batches and goes to Keras itself: for models without
    preprocessor. Mixed into a KerasHub task before its base class.
    """

    def fit(
        self,
        x: Tensor | None = None,
        y: Tensor | None = None,
        batch_size: int | None = None,
        sample_weight: Tensor | None = None,
        validation_data: Any = None,
        validation_split: float | None = None,
        **kwargs: Any,
    ) -> Any:
        """Trains the model, as `keras.Model.fit`.

        Args:
            x: What the preprocessor takes, for all examples: lists, arrays,
                tensors or pandas columns, a tuple or a dictionary of such; or
                a dataset of batches of TensorFlow or Grain. For a model
                without preprocessor tokenized arrays, or a
                `keras.utils.PyDataset`.
            y: Labels, as many as examples, if the task has labels.
            batch_size: Integer, examples per batch, by default 32; also for
                validation, unless `validation_batch_size` is given.
            sample_weight: Optional weights, as many as examples.
            validation_data: Tuple `(x, y)` or `(x, y, sample_weight)`, or a
                dataset.
            validation_split: Float, share of the examples, the last ones,
                to validate on.
            **kwargs: Other arguments of `keras.Model.fit`. `shuffle`:
                whether each epoch has another random order of the examples,
                by default True. The order is drawn from Keras' seed
                (`keras.utils.set_random_seed`). A dataset keeps its own.

        Returns:
            The `keras.callbacks.History`.

        Raises:
            ValueError: x, y and the weights are not equally many, or labels
                do not suit the task. Nothing has been trained then.
        """
        shuffle = kwargs.pop("shuffle", True)
        own_size = kwargs.pop("validation_batch_size", None) or batch_size
        if self._is_tokenized(x):
            return keras.Model.fit(
                self,
                x,
                y,
                batch_size=batch_size,
                sample_weight=sample_weight,
                validation_data=self._checked_validation(validation_data),
                validation_split=validation_split or 0.0,
                validation_batch_size=own_size,
                # In the order of the dataset: it may shuffle itself.
                **{**kwargs, "shuffle": False},
            )
        if is_dataset(x):
            x = self._with_checked_labels(x)
        else:
            data = self._checked_examples(x, y, sample_weight)
            if validation_split and validation_data is None:
                data, validation_data = split_off(data, validation_split)
            seed = np.random.randint(2**31 - 1) if shuffle else None
            self._build_preprocessor(data)
            x = batches(data, batch_size, seed)
            y = batch_size = sample_weight = None
        validation_data = self._checked_validation(validation_data)
        if isinstance(validation_data, tuple):
            validation_data = batches(validation_data, own_size)
        return super().fit(
            x,
            y,
            batch_size,
            sample_weight,
            validation_data,
            **{**kwargs, "shuffle": False},
        )

    def evaluate(
        self,
        x: Tensor | None = None,
        y: Tensor | None = None,
        batch_size: int | None = None,
        sample_weight: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Scores the model, as `keras.Model.evaluate`; data as in `fit`."""
        options = {"batch_size": batch_size, **kwargs}
        prepared = kwargs.get("_use_cached_eval_dataset")  # `fit` did it
        if not prepared and self._is_tokenized(x):
            return keras.Model.evaluate(
                self, x, y, sample_weight=sample_weight, **options
            )
        if not prepared and is_dataset(x):
            x = self._with_checked_labels(x)
        elif not prepared:
            x, y, sample_weight = self._checked_examples(x, y, sample_weight)
            check_batches(check_lengths(x=x), batch_size or BATCH_SIZE)
        return super().evaluate(x, y, sample_weight=sample_weight, **options)

    def predict(
        self,
        x: Tensor | None = None,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Returns outputs as a NumPy array; x as in `fit`."""
        if self._is_tokenized(x):
            return keras.Model.predict(self, x, batch_size, **kwargs)
        if is_dataset(x):
            x = self._with_checked_labels(x)
        else:
            x = as_arrays(x, "x")
            check_batches(check_lengths(x=x), batch_size or BATCH_SIZE)
        return super().predict(x, batch_size, **kwargs)

    def _checked_labels(self, y, name="y"):
        """Labels in the form of the loss; tasks may check or encode them."""
        return y

    def _with_checked_labels(self, dataset):
        """The same for the labels of a dataset of batches."""
        return dataset

    def _checked_examples(self, x, y, sample_weight, prefix=""):
        """Arrays `(x, y, sample_weight)`, or an error that names what is wrong.

        Args:
            x: Examples in memory.
            y: Labels or `None`.
            sample_weight: Weights or `None`.
            prefix: String, what errors put before these names.
        """
        parts = {"x": x, "y": y, "sample_weight": sample_weight}
        parts = {
            prefix + name: as_arrays(part, prefix + name)
            for name, part in parts.items()
        }
        check_lengths(**parts)
        x, y, sample_weight = parts.values()
        return x, self._checked_labels(y, prefix + "y"), sample_weight

    def _checked_validation(self, data):
        """Validation data, examples in memory as arrays."""
        if data is None or isinstance(data, keras.utils.PyDataset):
            return data
        if is_dataset(data):
            return self._with_checked_labels(data)
        data = unpack_x_y_sample_weight(data)
        return self._checked_examples(*data, prefix="validation_")

    def _build_preprocessor(self, data):
        """Builds it by an example: threads that read batches would do so."""
        first = map_parts(
            lambda part: part[:1].tolist() if part.dtype == "O" else part[:1],
            data,
        )
        self.preprocess_samples(*first)

    def _is_tokenized(self, x):
        if not isinstance(x, keras.utils.PyDataset):
            return False
        if self.preprocessor is not None:
            raise ValueError(
                "A PyDataset delivers tokenized batches, but this model has a "
                "preprocessor, which takes raw strings. Build it with "
                "preprocessor=None, and set model.preprocessor afterwards, or "
                f"pass strings. Received: {type(x).__name__}"
            )
        return True


def is_dataset(x):
    """Whether x is a dataset of TensorFlow or Grain, which KerasHub takes."""
    return is_tensorflow_dataset(x) or is_grain_dataset(x)


def is_grain_dataset(x):
    """Whether x is a dataset of Grain."""
    return grain is not None and isinstance(
        x, (grain.MapDataset, grain.IterDataset)
    )


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
