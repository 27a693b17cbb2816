"""`TaskMixin`: data, saving and the default optimizer of all tasks."""

import contextlib
from collections.abc import Iterator
from typing import Any, Self

import keras
import numpy as np
from keras.utils import pack_x_y_sample_weight, unpack_x_y_sample_weight

from keras_synth._backend.internals import kept_variables
from keras_synth._backend.policies import with_policies
from keras_synth.models.saving.model import ModelMixin
from keras_synth.models.tasks.examples import (
    batches_of,
    check_not_a_stream,
    columns,
    count_of,
    is_dataset,
    split,
)
from keras_synth.models.tasks.labels import weights_of_numbers
from keras_synth.types import FilePath, Identifier, Tensor


class TaskMixin(ModelMixin):
    """What all tasks of this package add to KerasHub's.

    KerasHub's own `fit`, `evaluate` and `predict` take datasets of TensorFlow
    and Grain as they are. Examples in memory become a dataset of Grain before,
    which `fit` shuffles. Without a preprocessor there is nothing to map, and
    Keras' own methods take whatever they take. Mixed into a KerasHub task
    before its base class.
    """

    reads_words = False  # whether examples are lists of words
    class_names: Any = None

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
            x: Examples in memory that the preprocessor takes: a list, array or
                pandas column of texts, a tuple or a dictionary of such. Or a
                dataset of TensorFlow or Grain with batches of x, `(x, y)` or
                `(x, y, sample_weight)`. Without a preprocessor whatever
                `keras.Model.fit` takes.
            y: Labels, if the task has labels and x is not a dataset.
            batch_size: Integer, examples per batch, by default 32; also for
                validation, unless `validation_batch_size` is given.
            sample_weight: Optional weights, one for each example.
            validation_data: Tuple `(x,)`, `(x, y)` or
                `(x, y, sample_weight)`, a list of texts, or a dataset.
            validation_split: Float, fraction of the examples in memory, the
                last ones, to validate on.
            **kwargs: Other arguments of `keras.Model.fit`. Examples in memory
                come in another random order in each epoch, drawn from the seed
                of `keras.utils.set_random_seed`, unless `shuffle=False`.
                Datasets keep their order. The keys of `class_weight` are
                numbers or names of classes.

        Returns:
            The `keras.callbacks.History`.

        Raises:
            ValueError: If a text is missing, columns differ in length, or a
                label is not a class. Of examples in memory, nothing has been
                trained then.
        """
        if kwargs.get("class_weight") is not None:
            kwargs["class_weight"] = weights_of_numbers(
                kwargs["class_weight"], self.class_names
            )
        data = self._read((x, y, sample_weight))
        validation = None
        if validation_data is not None:
            if _are_texts(validation_data):
                validation_data = (validation_data,)
            validation = self._read(
                unpack_x_y_sample_weight(validation_data), "validation_"
            )
        if not self._maps(x):
            if validation is not None:
                kwargs["validation_data"] = pack_x_y_sample_weight(*validation)
            kwargs["validation_split"] = validation_split or 0.0
            return self._keras("fit", data, batch_size, **kwargs)
        shuffle = kwargs.pop("shuffle", True)
        size = kwargs.pop("validation_batch_size", None) or batch_size
        if validation_split and validation is None:
            data, validation = split(data, validation_split)
        if validation is not None and not is_dataset(validation[0]):
            validation = batches_of(validation, size), None, None
        if validation is not None:
            validation = pack_x_y_sample_weight(*validation)
        seed = int(np.random.randint(2**31 - 1))
        if not is_dataset(x):
            data = batches_of(data, batch_size, seed if shuffle else None)
            data, batch_size = (data, None, None), None
        x, y, sample_weight = data
        with kept_variables(self):
            return super().fit(
                self._training_dataset(x, seed),
                y,
                batch_size,
                sample_weight,
                validation,
                **{**kwargs, "shuffle": False},
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
        cached = kwargs.get("_use_cached_eval_dataset")  # `fit` has read it
        if not cached:
            x, y, sample_weight = self._read((x, y, sample_weight))
        if cached or not self._maps(x):
            data = x, y, sample_weight
            return self._keras("evaluate", data, batch_size, **kwargs)
        if not is_dataset(x):
            x = batches_of((x, y, sample_weight), batch_size)
            y = sample_weight = batch_size = None
        with kept_variables(self):
            return super().evaluate(x, y, batch_size, sample_weight, **kwargs)

    def predict(
        self, x: Any = None, batch_size: int | None = None, **kwargs: Any
    ) -> Any:
        """Returns outputs as a NumPy array; x as in `fit`."""
        if not self._maps(x):
            return keras.Model.predict(self, x, batch_size, **kwargs)
        if not is_dataset(x):
            data = self._read((x, None, None), labels=False)
            x, batch_size = batches_of(data, batch_size), None
        with kept_variables(self):
            return super().predict(x, batch_size, **kwargs)

    def preprocess_samples(
        self,
        x: Any,
        y: Tensor | None = None,
        sample_weight: Tensor | None = None,
    ) -> Any:
        """Preprocesses a batch; KerasHub calls it."""
        y = None if y is None else self.encode_labels(y)
        return super().preprocess_samples(x, y, sample_weight)

    def encode_labels(self, labels: Tensor) -> Tensor:
        """Returns labels in the form of the loss."""
        return labels

    def _training_dataset(self, dataset, seed):
        """A dataset to train on, as KerasHub's `fit` takes it."""
        return dataset

    def _maps(self, x):
        """Whether KerasHub, and not Keras only, reads data."""
        preprocessor = self.preprocessor
        if isinstance(preprocessor, keras.Layer) and not preprocessor.built:
            preprocessor.build(None)  # or threads of Grain do so at once
        return preprocessor is not None or is_dataset(x)

    def _keras(self, method, data, batch_size, **kwargs):
        """Calls a method of `keras.Model`."""
        x, y, sample_weight = data
        with kept_variables(self):
            return getattr(keras.Model, method)(
                self, x, y, batch_size, sample_weight=sample_weight, **kwargs
            )

    def _read(self, data, prefix="", labels=True):
        """Checked columns of examples in memory; other data as they are."""
        x, y, sample_weight = data
        if is_dataset(x):
            return x, y, sample_weight
        if self.preprocessor is not None:
            check_not_a_stream(x)
        classifies = hasattr(self, "num_classes")
        if classifies and labels and y is None and self._maps(x):
            raise ValueError(
                "A classifier is trained and scored by labels: pass y, or a "
                f"dataset of (x, y). Received: {prefix}y=None"
            )
        if self.preprocessor is None:
            return x, y if y is None else self.encode_labels(y), sample_weight
        for name, part in {"y": y, "sample_weight": sample_weight}.items():
            if not classifies and part is not None:
                raise ValueError(
                    "The texts of a language model are its labels, and tokens "
                    f"have weights of their own. Leave out {prefix}{name}, or "
                    "set model.preprocessor = None and pass tokens. Received: "
                    f"{prefix}{name} in addition to texts"
                )
        data = (
            columns(x, f"{prefix}x", self.reads_words),
            columns(y, f"{prefix}y", self.reads_words),
            columns(sample_weight, f"{prefix}sample_weight"),
        )
        count_of(data)
        x, y, sample_weight = data
        return x, y if y is None else self.encode_labels(y), sample_weight

    def compile(
        self,
        optimizer: Identifier = "auto",
        loss: Identifier = "auto",
        *,
        jit_compile: bool | str = "auto",
        **kwargs: Any,
    ) -> None:
        """Configures training, as the `compile` of KerasHub's tasks.

        Args:
            optimizer: By default `AdamW(1e-3)`, to train from scratch; if the
                weights of the backbone were loaded, `Adam(5e-5)`, as in
                KerasHub.
            loss: By default sparse categorical cross-entropy.
            jit_compile: As for `keras.Model.compile`.
            **kwargs: `weighted_metrics`; of tasks that generate text,
                `sampler`, a name or a `keras_hub.samplers.Sampler`; and other
                arguments of `keras.Model.compile`.
        """
        if optimizer == "auto" and getattr(self.backbone, "pretrained", False):
            optimizer = keras.optimizers.Adam(5e-5)
        elif optimizer == "auto":
            optimizer = keras.optimizers.AdamW(1e-3)
        super().compile(
            optimizer=optimizer, loss=loss, jit_compile=jit_compile, **kwargs
        )
        self._jit_compile_given = jit_compile
        if isinstance(getattr(self, "sampler", None), str):
            raise ValueError(  # KerasHub takes any string
                "sampler must be beam, contrastive, greedy, random, top_k, "
                "top_p, or a keras_hub.samplers.Sampler. Received: sampler="
                f"{self.sampler!r}"
            )

    def get_compile_config(self) -> dict[str, Any]:
        config = super().get_compile_config()
        if config:
            # Keras writes down what "auto" means on this backend. On another
            # one that would run `torch.compile`, or compile nothing.
            config["jit_compile"] = self._jit_compile_given
        if config and getattr(self, "sampler", None) is not None:
            config["sampler"] = keras.saving.serialize_keras_object(
                self.sampler
            )
        return config

    def compile_from_config(self, config: dict[str, Any]) -> None:
        # Keras does not do so for models that override `compile`.
        self.compile(**keras.saving.deserialize_keras_object(config))
        self._build_optimizer()

    def make_train_function(self, force: bool = False) -> Any:
        # A step that makes variables is traced twice by TensorFlow.
        self._build_optimizer()
        return super().make_train_function(force)

    def _build_optimizer(self):
        if self.optimizer is not None and not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)

    @classmethod
    def from_preset(
        cls, preset: FilePath, load_weights: bool = True, **kwargs: Any
    ) -> Self:
        """Loads a task from a preset, as KerasHub's tasks do."""
        task = super().from_preset(preset, load_weights, **kwargs)
        if kwargs.get("compile", True):
            task.compile()  # for weights that have been loaded
        return task

    def save_task_weights(self, filepath: FilePath) -> None:
        """Saves the weights of the task that are not in its backbone."""
        # KerasHub saves the optimizer's state with them, and cannot load it.
        with _without_optimizer(self):
            super().save_task_weights(filepath)

    def load_task_weights(self, filepath: FilePath) -> None:
        """Loads what `save_task_weights` saved."""
        with _without_optimizer(self):
            super().load_task_weights(filepath)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if not self.trainable:  # KerasHub forgets it
            config["trainable"] = False
        # Output layers look up their policy where the backbone's layers do.
        backbone = config["backbone"]["config"]
        config["backbone"]["config"] = with_policies(self, backbone)
        return config


def _are_texts(data):
    """Whether data are a list of texts, which Keras would take for (x, y)."""
    return isinstance(data, list) and all(isinstance(x, str) for x in data)


@contextlib.contextmanager
def _without_optimizer(model: Any) -> Iterator[None]:
    """Hides a compiled model's optimizer from what saves and loads it."""
    optimizer, model.optimizer = model.optimizer, None
    try:
        yield
    finally:
        model.optimizer = optimizer
