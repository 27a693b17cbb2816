"""Saving: files are replaced in one step, tasks come back compiled."""

import contextlib
import math
import os
import pathlib
import re
from typing import Any, Self

import keras

from keras_synth._backend.internals import sublayers
from keras_synth._backend.policies import check_quantization
from keras_synth._system.files import folder_beside
from keras_synth.folding import folded_config
from keras_synth.models.saving.exporting import ExportMixin
from keras_synth.models.saving.parameters import ParametersMixin
from keras_synth.models.saving.preset_files import (
    files_of_preset,
    remove_files,
)
from keras_synth.types import FilePath, Mixin

BYTES_OF_A_NAME = 4096  # what HDF5 writes around an array, at most
BYTES_BESIDE = 2**17  # configs and small vocabularies


class PresetPathsMixin(Mixin):
    """Lets `from_preset` take any path; mixed in before KerasHub's class."""

    @classmethod
    def from_preset(cls, preset: Any, *args: Any, **kwargs: Any) -> Self:
        """Loads from a preset folder, whose path need not be a string."""
        return super().from_preset(os.fspath(preset), *args, **kwargs)


class AtomicSavingMixin(PresetPathsMixin):
    """Makes the `save...` methods of a model atomic.

    They write to a temporary folder beside and rename, so that an error while
    writing (a full disk, an interrupt) leaves an earlier file as it was. Mixed
    into a KerasHub model before its base class.
    """

    def save(
        self, filepath: FilePath, overwrite: bool = True, **kwargs: Any
    ) -> None:
        """Saves the model as `keras.Model.save` does, or not at all."""
        _write_aside(self, super().save, filepath, overwrite, **kwargs)

    def save_weights(
        self, filepath: FilePath, overwrite: bool = True, **kwargs: Any
    ) -> None:
        """Saves the weights as `keras.Model.save_weights`, or not at all."""
        _write_aside(self, super().save_weights, filepath, overwrite, **kwargs)

    def save_to_preset(self, preset_dir: FilePath, **kwargs: Any) -> None:
        """Saves a preset folder, replacing one file after the other.

        Of an older preset of a model nothing is left; other files, a model
        card among them, stay as they are.
        """
        if "://" in str(preset_dir):
            super().save_to_preset(preset_dir, **kwargs)
            return
        folder = pathlib.Path(preset_dir)
        older = files_of_preset(folder)
        with folder_beside(folder, _room(self)) as aside:
            super().save_to_preset(str(aside), **kwargs)
            made = [*aside.rglob("*")]
            older -= {file.relative_to(aside) for file in made}
            for file in sorted(made):
                place = folder / file.relative_to(aside)
                if file.is_dir():
                    place.mkdir(parents=True, exist_ok=True)
                else:
                    place.parent.mkdir(parents=True, exist_ok=True)
                    os.replace(file, place)
            remove_files(folder, older)


class CloningMixin(Mixin):
    """Keeps `keras.models.clone_model` from making a plain model of this one.

    Mixed into a KerasHub model before its base class.
    """

    def _run_through_graph(self, *args, **kwargs):
        # `clone_model` alone passes both, to build a model of other layers.
        if {"operation_fn", "call_fn"} <= kwargs.keys():
            task = hasattr(self, "preprocessor")
            kept = ", 'preprocessor': model.preprocessor" if task else ""
            raise ValueError(
                "keras.models.clone_model loses class and preprocessor. Make "
                "another one of the config: type(model).from_config("
                f"{{**model.get_config(){kept}}}). Received: "
                f"{type(self).__name__}"
            )
        return super()._run_through_graph(*args, **kwargs)


class TaskSavingMixin(
    CloningMixin, AtomicSavingMixin, ExportMixin, ParametersMixin
):
    """Lets `keras.saving.load_model` compile a task as it was compiled.

    Keras does so for models that do not override `compile`; KerasHub's tasks
    override it. Presets hold no state of optimizers, which KerasHub saves with
    a task's own weights and cannot load. Mixed into a task before its base
    class.
    """

    def save_task_weights(self, filepath: FilePath) -> None:
        """Saves the weights of the task that are not in its backbone."""
        with _without_optimizer(self):
            super().save_task_weights(filepath)

    def load_task_weights(self, filepath: FilePath) -> None:
        """Loads what `save_task_weights` saved."""
        with _without_optimizer(self):
            super().load_task_weights(filepath)

    def get_config(self) -> dict[str, Any]:
        # KerasHub forgets that a whole task is fixed.
        fixed = {} if self.trainable else {"trainable": False}
        return {**super().get_config(), **fixed}

    def compile(
        self, *args: Any, jit_compile: bool | str = "auto", **kwargs: Any
    ) -> None:
        super().compile(*args, jit_compile=jit_compile, **kwargs)
        self._jit_compile_given = jit_compile

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

    def quantize(
        self,
        mode: str | None = None,
        config: Any = None,
        filters: Any = None,
        **kwargs: Any,
    ) -> Any:
        check_quantization(mode)
        if self.preprocessor is not None:
            filters = _without(self.preprocessor, filters)
        return super().quantize(mode, config=config, filters=filters, **kwargs)

    def make_train_function(self, force: bool = False) -> Any:
        # A step that makes variables is traced twice by TensorFlow.
        self._build_optimizer()
        return super().make_train_function(force)

    def compile_from_config(self, config: dict[str, Any]) -> None:
        self.compile(**keras.saving.deserialize_keras_object(config))
        self._build_optimizer()

    def _build_optimizer(self):
        if self.optimizer is not None and not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)


@folded_config.register(TaskSavingMixin)
def _folded_config(task, folding):
    config = task.get_config()
    # Where the layers of a task, too, look up whether they are quantized.
    dtype = config["backbone"]["config"]["dtype"]
    backbone = folding.rebuilt(task.backbone, dtype=dtype)
    preprocessor, length = task.preprocessor, folding.max_length
    if length is not None and preprocessor is not None:
        preprocessor = shortened(preprocessor, length)
        _check_shortened(task, preprocessor, length)
    return {**config, "backbone": backbone, "preprocessor": preprocessor}


def _check_shortened(task, preprocessor, max_length):
    """Raises if less padding would change outputs."""
    if _lengths(preprocessor) == _lengths(task.preprocessor):
        return
    for layer in (task, *sublayers(task)):
        if getattr(layer, "sees_padding", False):
            raise ValueError(
                f"{type(layer).__name__} counts the padding, too: padded to "
                "other lengths the same texts have other outputs. Leave out "
                "`max_length`, or train with a preprocessor of this length. "
                f"Received: max_length={max_length}, where texts are padded to "
                f"{_lengths(task.preprocessor)}"
            )


def shortened(preprocessor, max_length):
    """A preprocessor of the same tokenizer whose sequences are not longer."""
    config = preprocessor.get_config()
    for name, value in _lengths(preprocessor).items():
        config[name] = min(value, max_length)
    config["tokenizer"] = preprocessor.tokenizer
    return type(preprocessor).from_config(config)


def _lengths(preprocessor):
    """The lengths in tokens that it cuts and pads to, by their names."""
    return {
        name: value
        for name, value in preprocessor.get_config().items()
        if name.endswith("sequence_length") and value is not None
    }


@contextlib.contextmanager
def _without_optimizer(model):
    """Hides a compiled model's optimizer from what saves and loads it."""
    optimizer, model.optimizer = model.optimizer, None
    try:
        yield
    finally:
        model.optimizer = optimizer


def _write_aside(model, write, filepath, overwrite, **kwargs):
    """Calls `write` on a path in a temporary folder, then moves its files."""
    path = pathlib.Path(str(filepath))
    # Keras handles remote and misnamed paths, and asks about existing ones.
    plain = path.suffix in (".keras", ".h5") and "://" not in str(filepath)
    if not plain or (path.exists() and not overwrite):
        write(filepath, overwrite=overwrite, **kwargs)
        return
    with folder_beside(path, _room(model)) as aside:
        write(str(aside / path.name), **kwargs)
        for file in sorted(aside.iterdir()):
            os.replace(file, path.parent / file.name)


def _room(model):
    """Bytes that a file of a model's weights may need."""
    bits = 0
    for variable in model.variables:
        width = re.search(r"\d+", variable.dtype)
        bits += math.prod(variable.shape) * int(width[0] if width else 8)
    return bits // 8 + len(model.variables) * BYTES_OF_A_NAME + BYTES_BESIDE


def _without(preprocessor, filters):
    """Filters of `quantize` that leave a preprocessor alone.

    Keras refuses layers that are not built, as a tokenizer is that has not
    been called.
    """
    if filters is None or isinstance(filters, str):
        filters = [filters or ""]  # all, or those that match
    if isinstance(filters, (list, tuple)):
        patterns = filters

        def filters(layer):
            return any(re.search(each, layer.name) for each in patterns)

    if not callable(filters):
        raise ValueError(
            "`filters` must be a regular expression, a list of them, or a "
            f"function of a layer. Received: {filters!r}"
        )
    left_alone = {
        id(layer) for layer in (preprocessor, *sublayers(preprocessor))
    }
    return lambda layer: id(layer) not in left_alone and filters(layer)
