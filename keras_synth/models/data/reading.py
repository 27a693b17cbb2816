"""Data of every kind that Keras' `fit` takes, for the tasks."""

import contextlib
import functools
from typing import Any

import keras
import numpy as np
from keras.utils import unpack_x_y_sample_weight

from keras_synth._backend.distributions import check_batches
from keras_synth._backend.fitting import kept_variables
from keras_synth.models.data.class_labels import weighted
from keras_synth.models.data.examples import (
    as_arrays,
    as_lists,
    check_form,
    check_lengths,
    check_weights,
    split_off,
)
from keras_synth.models.data.streams import (
    ArrayBatches,
    is_grain_dataset,
    is_stream,
    mapped,
    own_errors,
    unpacked,
)
from keras_synth.models.data.tf_data import (
    check_batched,
    is_tensorflow_dataset,
    map_ahead,
    map_checked,
)
from keras_synth.types import Mixin, Tensor

BATCH_SIZE = 32  # Keras' own


class DataMixin(Mixin):
    """Data of all kinds that Keras' `fit` takes, for a task.

    Examples in memory are checked before training starts; each batch of a
    generator, a `keras.utils.PyDataset`, a PyTorch `DataLoader` or a dataset
    when it is read. Then Keras gets what the preprocessor makes of them; for
    models without one, what there was. Mixed into a KerasHub task before its
    base class.

    A task says how its examples are read, where they are not texts:
    `_check_form` and `_checked_inputs` for x; `_read_labels`,
    `_checked_labels`, `_check_extras` and `_checked_class_weight` for what
    comes with them. What
    becomes of them is `_prepared` for a batch, `_in_memory` for examples that
    are all there, and `_of_tensorflow` for a `tf.data.Dataset`.
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
        """Trains the model, as `keras.Model.fit`.

        Args:
            x: What the preprocessor takes, for all examples: lists, arrays,
                tensors or pandas columns, a tuple or a dictionary of such. Or
                batches `(x,)`, `(x, y)` or `(x, y, sample_weight)` of such:
                a generator, a `keras.utils.PyDataset`, a PyTorch
                `DataLoader`, or a dataset of TensorFlow or Grain. For a model
                without preprocessor tokenized arrays, or batches of them.
            y: Labels, as many as examples, if the task has labels. Batches
                hold their own.
            batch_size: Integer, examples per batch, by default 32; also for
                validation, unless `validation_batch_size` is given.
            sample_weight: Optional weights, as many as examples.
            validation_data: Tuple `(x, y)` or `(x, y, sample_weight)`, or
                batches.
            validation_split: Float, share of the examples in memory, the last
                ones, to validate on.
            **kwargs: Other arguments of `keras.Model.fit`. `shuffle`:
                whether each epoch has another random order of the examples,
                by default True. The order is drawn from Keras' seed
                (`keras.utils.set_random_seed`). Batches keep their own.
                `class_weight`: by the numbers or names of classes.

        Returns:
            The `keras.callbacks.History`.

        Raises:
            ValueError: x, y and the weights are not equally many, or labels
                do not suit the task. Of examples in memory, nothing has been
                trained then.
        """
        shuffle = kwargs.pop("shuffle", True)
        own_size = kwargs.pop("validation_batch_size", None) or batch_size
        self._number_class_weight(kwargs)
        _check_no_batch_size(x, batch_size)
        data, validation_data = self._checked_fit(
            (x, y, sample_weight), validation_data, validation_split
        )
        with self._reading() as watched:
            if validation_data is not None:
                validation_data = self._delivered(
                    validation_data, watched, own_size, "validation_"
                )
            x, y, sample_weight = self._delivered(
                data, watched, batch_size, shuffle=shuffle, training=True
            )
            if is_grain_dataset(x) and kwargs.get("class_weight") is not None:
                # Keras takes no class weights beside a dataset of Grain.
                weights = kwargs.pop("class_weight")
                x = x.map(watched(functools.partial(weighted, weights)))
            return keras.Model.fit(
                self,
                x,
                y,
                batch_size=batch_size,
                sample_weight=sample_weight,
                validation_data=validation_data,
                validation_batch_size=own_size,
                # Batches keep their order: datasets may shuffle themselves.
                **{**kwargs, "shuffle": shuffle and not delivers_batches(x)},
            )

    def evaluate(
        self,
        x: Any = None,
        y: Tensor | None = None,
        batch_size: int | None = None,
        sample_weight: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Scores the model, as `keras.Model.evaluate`; data as in `fit`."""
        with self._reading() as watched:
            if not kwargs.get("_use_cached_eval_dataset"):  # `fit` did it
                _check_no_batch_size(x, batch_size)
                data = self._checked((x, y, sample_weight))
                x, y, sample_weight = self._delivered(data, watched, batch_size)
            return keras.Model.evaluate(
                self,
                x,
                y,
                batch_size=batch_size,
                sample_weight=sample_weight,
                **kwargs,
            )

    def predict(
        self,
        x: Any = None,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Returns outputs as a NumPy array; x as in `fit`."""
        with self._reading() as watched:
            if delivers_batches(x):
                _check_no_batch_size(x, batch_size)
            else:
                x = self._checked_inputs(x, "x")
            x, _, _ = self._delivered(
                (x, None, None), watched, batch_size, labels=False
            )
            return keras.Model.predict(self, x, batch_size=batch_size, **kwargs)

    def train_on_batch(
        self,
        x: Any,
        y: Tensor | None = None,
        sample_weight: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Trains on a batch, as `keras.Model.train_on_batch`."""
        self._number_class_weight(kwargs)
        data = as_lists(self._checked_examples(x, y, sample_weight))
        return super().train_on_batch(*data, **kwargs)

    def test_on_batch(
        self,
        x: Any,
        y: Tensor | None = None,
        sample_weight: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Scores a batch, as `keras.Model.test_on_batch`."""
        data = as_lists(self._checked_examples(x, y, sample_weight))
        return super().test_on_batch(*data, **kwargs)

    def predict_on_batch(self, x: Any, **kwargs: Any) -> Any:
        """Returns the outputs for a batch of what `predict` takes."""
        return super().predict_on_batch(
            as_lists(self._checked_inputs(x, "x")), **kwargs
        )

    @contextlib.contextmanager
    def _reading(self):
        """Yields a decorator of what reads data; errors are its own."""
        with kept_variables(self), own_errors() as watched:
            yield watched

    def _checked_inputs(self, x, name):
        """Examples in memory, or an error that names what is wrong."""
        x = as_arrays(x, name)
        check_lengths(**{name: x})
        if self._reads_texts():
            self._check_form(x, name)
        return x

    def _checked_examples(self, x, y, sample_weight, prefix=""):
        """Arrays `(x, y, sample_weight)`, or an error that names what is wrong.

        Args:
            x: Examples in memory.
            y: Labels or `None`.
            sample_weight: Weights or `None`.
            prefix: String, what errors put before these names.
        """
        x = self._checked_inputs(x, f"{prefix}x")
        weights = as_arrays(sample_weight, f"{prefix}sample_weight")
        y = self._read_labels(y, f"{prefix}y", x)
        check_lengths(
            **{
                f"{prefix}x": x,
                f"{prefix}y": y,
                f"{prefix}sample_weight": weights,
            }
        )
        check_weights(weights, f"{prefix}sample_weight")
        if self._reads_texts():
            self._check_extras(y, weights, prefix)
        return x, self._checked_labels(y, f"{prefix}y"), weights

    def _check_form(self, x, name):
        """Raises unless x, arrays or specs, are texts in the task's form."""
        check_form(x, name)

    def _check_extras(self, y, sample_weight, prefix):
        """Raises if the task has no use for labels or weights beside texts."""
        return

    def _read_labels(self, y, name, x):
        """Labels as arrays, one entry for each example of x, or `None`."""
        return as_arrays(y, name)

    def _checked_labels(self, y, name):
        """Labels in the form of the loss; tasks may check or encode them."""
        return y

    def _has_classes(self):
        """Whether `_checked_labels` has anything to do."""
        return type(self)._checked_labels is not DataMixin._checked_labels

    def _checked_class_weight(self, class_weight):
        """Weights by the numbers of classes."""
        if self._reads_texts():
            raise ValueError(
                "class_weight is for texts that have a class each. Leave it "
                f"out for {type(self).__name__}. Received: "
                f"class_weight={class_weight}"
            )
        return class_weight

    def _number_class_weight(self, options):
        if options.get("class_weight") is not None:
            weights = self._checked_class_weight(options["class_weight"])
            options["class_weight"] = weights

    def _reads_texts(self):
        """Whether there is a preprocessor whose input is known."""
        return isinstance(self.preprocessor, self.preprocessor_cls)

    def _checked(self, data, prefix=""):
        """Examples in memory as arrays; batches stay as they are."""
        if delivers_batches(data[0]):
            return data
        return self._checked_examples(*data, prefix=prefix)

    def _checked_fit(self, data, validation, share):
        """The data to train and validate on, `(x, y, sample_weight)` each."""
        data = self._checked(data)
        if validation is not None:
            validation = unpacked(validation, "validation_data")
            return data, self._checked(validation, "validation_")
        if not share:
            return data, None
        if delivers_batches(data[0]):
            raise ValueError(
                "validation_split needs examples in memory. Pass "
                "validation_data instead. Received: validation_split="
                f"{share} of a {type(data[0]).__name__}"
            )
        return split_off(data, share)

    def _delivered(
        self,
        data,
        watched,
        batch_size=None,
        prefix="",
        shuffle=False,
        training=False,
        labels=True,
    ):
        """What Keras takes: checked, and made by the preprocessor.

        Args:
            data: Tuple `(x, y, sample_weight)` of `_checked`.
            watched: Decorator of what data pipelines call.
            batch_size: Integer, examples per batch of those in memory.
            prefix: String, what errors put before names.
            shuffle: Whether each epoch has another order of them.
            training: Whether what is drawn at random is drawn in each epoch.
            labels: Whether the labels of batches count.
        """
        x, y, sample_weight = data
        if is_tensorflow_dataset(x):
            x = self._of_tensorflow(x, watched, prefix, training, labels)
        elif delivers_batches(x):
            function = functools.partial(
                self._batch, prefix=prefix, training=training, labels=labels
            )
            x = mapped(x, watched(function))
        else:
            count = check_lengths(x=x)
            check_batches(count, batch_size or BATCH_SIZE)
            return self._in_memory(data, batch_size or BATCH_SIZE, shuffle)
        return x, y, sample_weight

    def _batch(self, batch, at, passes, prefix, training, labels):
        """A batch as it is delivered, as Keras takes it."""
        data = self._checked_batch(batch, f"{prefix}batch {at}", labels)
        return self._prepared(data, at, passes if training else None)

    def _checked_batch(self, batch, name, labels=True):
        x, y, sample_weight = unpacked(batch, name)
        if labels:
            return self._checked_examples(x, y, sample_weight, f"{name}, ")
        return self._checked_inputs(x, f"{name}, x"), None, None

    def _prepared(self, data, at=0, epoch=None):
        """A tuple of NumPy arrays for Keras.

        Args:
            data: Tuple `(x, y, sample_weight)` of `_checked_examples`.
            at: Integer, the number of the batch.
            epoch: Integer, what is drawn at random depends on it; `None` not
                to train.
        """
        with keras.device("cpu"):  # from where Keras takes them to devices
            made = self.preprocess_samples(*as_lists(data))
        made = unpack_x_y_sample_weight(made)
        return tuple(
            as_arrays(part, "features") for part in made if part is not None
        )

    def _in_memory(self, data, batch_size, shuffle):
        """The same of examples in memory: arrays, or batches."""
        seed = np.random.randint(2**31 - 1) if shuffle else None
        batches = ArrayBatches(data, batch_size, seed)
        prepared = mapped(
            batches,
            lambda batch, at, _: self._prepared(batch, at),
        )
        return prepared, None, None

    def _of_tensorflow(self, dataset, watched, prefix, training, labels):
        """The same of a `tf.data.Dataset`, whose texts stay TensorFlow's."""
        self._check_specs(dataset, prefix, labels)
        if self._reads_texts() or self._has_classes():
            dataset = map_checked(
                dataset,
                watched(as_arrays),
                watched(self._checked_labels) if labels else None,
                prefix,
            )
        return map_ahead(dataset, self.preprocess_samples)

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


def delivers_batches(x):
    """Whether x are batches, as opposed to examples in memory."""
    return is_stream(x) or is_tensorflow_dataset(x) or is_grain_dataset(x)


def _check_no_batch_size(x, batch_size):
    if batch_size is not None and (
        is_tensorflow_dataset(x) or is_grain_dataset(x)
    ):
        raise ValueError(
            "A dataset has batches of its own: pass dataset.batch(batch_size), "
            f"and no batch_size. Received: batch_size={batch_size}"
        )
