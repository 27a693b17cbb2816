"""`TaskMixin`, the data, saving and default optimizer of tasks."""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import keras
import keras_hub
import numpy as np
from keras.utils import pack_x_y_sample_weight, unpack_x_y_sample_weight

from keras_synth._backend.internals import kept_variables, sublayers
from keras_synth._backend.policies import with_policies
from keras_synth.models.preprocessors.checks import check_fits, check_padding
from keras_synth.models.preprocessors.columns import columns
from keras_synth.models.saving.model import (
    ModelMixin,
    find_preset,
    read_json,
    with_public_optimizers,
)
from keras_synth.models.tasks.examples import (
    batches_of,
    check_batched,
    check_not_a_stream,
    check_weights,
    count_of,
    is_dataset,
    split,
    with_draws,
)
from keras_synth.models.tasks.labels import encoded_labels, weights_of_numbers
from keras_synth.types import FilePath


class TaskMixin(ModelMixin):
    """Adds data in memory, saving and a default optimizer to KerasHub's tasks.

    It comes before the base class of a KerasHub task. KerasHub's `fit`,
    `evaluate` and `predict` accept datasets of TensorFlow and Grain. Examples
    in memory first become a dataset of Grain, which `fit` shuffles. Without a
    preprocessor, Keras' methods receive the data directly.
    """

    reads_words = False  # whether examples are lists of words
    class_names: Any = None
    generate_function: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        check_fits(self.preprocessor, self.backbone)
        super().__init__(*args, **kwargs)

    def fit(
        self,
        x=None,
        y=None,
        batch_size=None,
        sample_weight=None,
        validation_data=None,
        validation_split=None,
        **kwargs,
    ):
        """Trains the model, like `keras.Model.fit`.

        Args:
            x: Examples in memory for the preprocessor: a list, array or pandas
                column of texts, or a tuple or dictionary of them. Or a dataset
                of TensorFlow or Grain with batches of x, `(x, y)` or
                `(x, y, sample_weight)`. Without a preprocessor, as for
                `keras.Model.fit`.
            y: Labels, if the task has labels and x is not a dataset.
            batch_size: Integer, examples per batch, by default 32; also the
                default of `validation_batch_size`.
            sample_weight: Optional weights, one for each example.
            validation_data: Tuple `(x,)`, `(x, y)` or
                `(x, y, sample_weight)`, a list of texts, or a dataset.
            validation_split: Float, fraction of the examples in memory for
                validation, the last ones.
            **kwargs: Other arguments of `keras.Model.fit`. Unless
                `shuffle=False`, each epoch shuffles the examples in memory, by
                the seed of `keras.utils.set_random_seed`. Datasets keep their
                order. The keys of `class_weight` are numbers or names of
                classes.

        Returns:
            The `keras.callbacks.History`.

        Raises:
            ValueError: If a text is missing, columns differ in length, or a
                label is not a class. Examples in memory are checked before
                training.
        """
        kwargs["class_weight"] = weights_of_numbers(
            self, kwargs.get("class_weight")
        )
        data = self._read((x, y, sample_weight))
        validation = None
        if validation_data is not None:
            if isinstance(validation_data, list) and all(
                isinstance(text, str) for text in validation_data
            ):
                validation_data = (validation_data,)  # not (x, y)
            validation = self._read(
                unpack_x_y_sample_weight(validation_data), "validation_"
            )
        if self._maps(x):
            seed = int(np.random.randint(2**31 - 1))
            shuffles = kwargs.pop("shuffle", True)
            size = kwargs.pop("validation_batch_size", None) or batch_size
            if validation_split and is_dataset(x):
                raise ValueError(
                    "`validation_split` needs examples in memory. For a "
                    "dataset, pass another one as `validation_data`. Received: "
                    f"validation_split={validation_split}"
                )
            if validation_split and validation is None:
                data, validation = split(data, validation_split)
            validation_split, kwargs["shuffle"] = None, False
            if validation is not None and not is_dataset(validation[0]):
                validation = (batches_of(validation, size),)
            if not is_dataset(x):
                x = batches_of(data, batch_size, seed if shuffles else None)
                data, batch_size = (x, None, None), None
            if getattr(self.preprocessor, "takes_draws", False):
                data = (with_draws(x, seed), *data[1:])
        if validation is not None:
            kwargs["validation_data"] = pack_x_y_sample_weight(*validation)
        x, y, sample_weight = data
        return self._call(
            "fit",
            x=x,
            y=y,
            batch_size=batch_size,
            sample_weight=sample_weight,
            validation_split=validation_split or 0.0,
            **kwargs,
        )

    def train_on_batch(
        self, x, y=None, sample_weight=None, class_weight=None, **kwargs
    ):
        """Trains on a batch, like Keras; `class_weight` as in `fit`."""
        if getattr(self.preprocessor, "takes_draws", False) and y is None:
            count = len(x[0] if isinstance(x, tuple) else x)
            y = np.random.randint(2**31 - 1, size=count)
        kwargs["class_weight"] = weights_of_numbers(self, class_weight)
        return super().train_on_batch(x, y, sample_weight, **kwargs)

    def evaluate(
        self, x=None, y=None, batch_size=None, sample_weight=None, **kwargs
    ):
        """Scores the model, like `keras.Model.evaluate`; data as in `fit`."""
        if not kwargs.get("_use_cached_eval_dataset"):  # read by `fit`
            x, y, sample_weight = data = self._read((x, y, sample_weight))
            if self._maps(x) and not is_dataset(x):
                x, y, sample_weight = batches_of(data, batch_size), None, None
                batch_size = None
        return self._call(
            "evaluate",
            x=x,
            y=y,
            batch_size=batch_size,
            sample_weight=sample_weight,
            **kwargs,
        )

    def predict(self, x=None, batch_size=None, **kwargs):
        """Returns outputs as a NumPy array; x as in `fit`."""
        if self._maps(x) and not is_dataset(x):
            data = self._read((x, None, None), labels=False)
            x, batch_size = batches_of(data, batch_size), None
        return self._call("predict", x=x, batch_size=batch_size, **kwargs)

    def _call(self, method, **kwargs):
        """Calls KerasHub's method, or Keras' without a preprocessor."""
        if self._maps(kwargs["x"]):
            call = getattr(super(), method)
        else:
            call = functools.partial(getattr(keras.Model, method), self)
        with kept_variables(self):
            return call(**kwargs)

    def _forget_other_variables(self):
        """Removes functions that were compiled before LoRA changed the weights.

        On TensorFlow they would ignore the updates. Keras removes them after
        `quantize`.
        """
        present = tuple(map(id, self.variables))
        if present != getattr(self, "_compiled_variables", present):
            self.train_function = self.test_function = None
            self.predict_function = self.generate_function = None
        self._compiled_variables = present

    def preprocess_samples(self, x, y=None, sample_weight=None):
        """Preprocesses a batch; KerasHub calls it."""
        check_batched(x)
        y = encoded_labels(self, y)
        return super().preprocess_samples(x, y, sample_weight)

    def make_generate_function(self) -> Any:
        self._forget_other_variables()
        # Compiled functions cannot check the padding.
        if self.generate_function is None:
            function = super().make_generate_function()

            def checked(inputs, stop_token_ids=None):
                self.backbone.check_lengths(inputs)
                check_padding(inputs)
                return function(inputs, stop_token_ids=stop_token_ids)

            self.generate_function = checked
        return self.generate_function

    def _maps(self, x):
        """Whether KerasHub reads data, and not only Keras."""
        self._build_preprocessor()  # before threads of Grain all do it
        return self.preprocessor is not None or is_dataset(x)

    def _build_preprocessor(self):
        if isinstance(self.preprocessor, keras.Layer):
            if not self.preprocessor.built:
                self.preprocessor.build(None)
            for layer in sublayers(self.preprocessor):
                if not layer.built:
                    layer.build(None)

    def _read(self, data, prefix="", labels=True):
        """Checked columns of examples in memory, or other data unchanged."""
        x, y, sample_weight = data
        if is_dataset(x):
            return x, y, sample_weight
        if self.preprocessor is None:
            return x, encoded_labels(self, y), sample_weight
        check_not_a_stream(x)
        classifies = hasattr(self, "num_classes")
        for name, part in {"y": y, "sample_weight": sample_weight}.items():
            if not classifies and part is not None:
                raise ValueError(
                    "The texts of a language model are also its labels, and "
                    f"its tokens have weights. Leave out {prefix}{name}, or "
                    "set model.preprocessor = None and pass tokens. Received: "
                    f"{prefix}{name} in addition to texts"
                )
        x = columns(x, f"{prefix}x", self.reads_words)
        if classifies and labels and y is None:
            raise ValueError(
                "A classifier needs labels. Pass y, or a dataset of (x, y). "
                f"Received: {prefix}y=None"
            )
        y = columns(y, f"{prefix}y", self.reads_words, "label")
        sample_weight = columns(
            sample_weight, f"{prefix}sample_weight", kind="weight"
        )
        count_of((x, y, sample_weight), prefix)
        check_weights(sample_weight, f"{prefix}sample_weight")
        return x, encoded_labels(self, y), sample_weight

    def compile(
        self, optimizer="auto", loss="auto", *, jit_compile="auto", **kwargs
    ):
        """Configures training, like the `compile` of KerasHub's tasks.

        Args:
            optimizer: By default `AdamW(1e-3)` for training from scratch, or
                `Adam(5e-5)`, as in KerasHub, if the backbone's weights were
                loaded.
            loss: By default sparse categorical cross-entropy.
            jit_compile: As for `keras.Model.compile`.
            **kwargs: `weighted_metrics`; for text generation, `sampler`, a name
                or a `keras_hub.samplers.Sampler`; and other arguments of
                `keras.Model.compile`.
        """
        if optimizer == "auto" and getattr(self.backbone, "pretrained", False):
            optimizer = keras.optimizers.Adam(5e-5)
        elif optimizer == "auto":
            optimizer = keras.optimizers.AdamW(1e-3)
        sampler = kwargs.get("sampler", "greedy")
        made = keras_hub.samplers.get(sampler)
        if not isinstance(made, keras_hub.samplers.Sampler):
            raise ValueError(  # KerasHub accepts any string
                "sampler must be beam, contrastive, greedy, random, top_k, "
                "top_p, or a keras_hub.samplers.Sampler. Received: sampler="
                f"{sampler!r}"
            )
        super().compile(
            optimizer=optimizer, loss=loss, jit_compile=jit_compile, **kwargs
        )
        self._jit_compile_given = jit_compile

    def get_compile_config(self) -> dict[str, Any]:
        config = super().get_compile_config()
        if config:
            # Keras saves the meaning of "auto" on this backend. Another backend
            # would then run `torch.compile`, or compile nothing.
            config["jit_compile"] = self._jit_compile_given
            # An optimizer has no state before the first step.
            own = {"built": getattr(self.optimizer, "built", False)}
            if getattr(self, "sampler", None) is not None:
                own["sampler"] = keras.saving.serialize_keras_object(
                    self.sampler
                )
            # `clone_model` compiles a plain model, which ignores this entry.
            (config.get("optimizer") or config)["task"] = own
        return config

    def compile_from_config(self, config):
        # Keras does not do this for models that override `compile`.
        own = (config.get("optimizer") or config).get("task", {})
        config = with_public_optimizers(config)
        config = keras.saving.deserialize_keras_object(config)
        config.pop("task", None)
        if "sampler" in own:
            config["sampler"] = keras.saving.deserialize_keras_object(
                own["sampler"]
            )
        self.compile(**config)
        if own.get("built", True):
            self._build_optimizer()

    def make_train_function(self, force: bool = False) -> Any:
        # TensorFlow traces a step that makes variables twice.
        self._build_optimizer()
        self._forget_other_variables()
        return super().make_train_function(force)

    def make_test_function(self, force: bool = False) -> Any:
        self._forget_other_variables()
        return super().make_test_function(force)

    def make_predict_function(self, force: bool = False) -> Any:
        self._forget_other_variables()
        return super().make_predict_function(force)

    def _build_optimizer(self):
        if self.optimizer is not None and not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)

    @classmethod
    def from_preset(cls, preset, load_weights=True, **kwargs):
        """Loads a task from a preset, like KerasHub's tasks."""
        preset = find_preset(preset)
        own = cls.preprocessor_cls
        saved = read_json(preset, "preprocessor.json")
        name = saved.get("class_name", own.__name__)
        if name != own.__name__ and "preprocessor" not in kwargs:
            # From that of another task, KerasHub takes only the tokenizer.
            keys, config = ("sequence_length", "with_segments"), saved["config"]
            options = {x: config[x] for x in keys if config.get(x)}
            kwargs["preprocessor"] = own.from_preset(preset, **options)
        try:
            task = super().from_preset(preset, load_weights, **kwargs)
        except TypeError as error:
            if "num_classes" in kwargs or "'num_classes'" not in str(error):
                raise
            saved = read_json(preset, "task.json")
            raise ValueError(
                f"The preset must be of a {cls.__name__}. Load it by its own "
                "class, or pass num_classes for a new classifier with its "
                f"backbone. Received: {saved.get('class_name', preset)}"
            ) from error
        if kwargs.get("compile", True):
            task.compile()  # with the optimizer for loaded weights
        return task

    def save_task_weights(self, filepath: FilePath) -> None:
        """Saves the weights of the task that are not in its backbone."""
        # KerasHub would save the optimizer's state, but cannot load it.
        with _without_optimizer(self):
            super().save_task_weights(filepath)

    def load_task_weights(self, filepath: FilePath) -> None:
        """Loads weights from `save_task_weights`."""
        with _without_optimizer(self):
            super().load_task_weights(filepath)

    def quantize(self, mode=None, config=None, **kwargs):
        self._build_preprocessor()  # Keras saves only built layers
        return super().quantize(mode, config=config, **kwargs)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if not self.trainable:  # KerasHub omits it
            config["trainable"] = False
        # Output layers use the policies of the backbone's layers.
        backbone = config["backbone"]["config"]
        config["backbone"]["config"] = with_policies(self, backbone)
        return config


@contextlib.contextmanager
def _without_optimizer(model: Any) -> Iterator[None]:
    optimizer = getattr(model, "optimizer", None)
    model.optimizer = None
    try:
        yield
    finally:
        model.optimizer = optimizer
