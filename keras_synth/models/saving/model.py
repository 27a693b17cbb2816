"""`ModelMixin`, the files and exports of backbones and tasks."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any, Self

import keras

from keras_synth._backend.internals import keras_hub_part
from keras_synth._backend.policies import (
    check_quantization,
    inherit_settings,
)
from keras_synth.models.saving.exporting import export
from keras_synth.types import FilePath, Mixin

_PARTIAL = ".partial"  # suffix of a folder during saving
# Where Keras has optimizers of PyTorch only.
_OF_TORCH = "keras.src.backend.torch.optimizers."
# Files of KerasHub in the folder of a preset.
_FILES = re.compile(
    r"(config|metadata|preprocessor|task|tokenizer)\.json|assets"
    r"|(model|model_\d+|task)\.weights\.(h5|json)"
)


class ModelMixin(Mixin):
    """Adds atomic saving, and exports, to KerasHub's models.

    It comes before the base class of a KerasHub model. `save`, `save_weights`
    and `save_to_preset` write to another name and rename, so that an error
    keeps the old file or folder.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        inherit_settings(self)
        # KerasHub 0.32 bypasses `torch.nn.Module` when it sets attributes, so
        # that there are no parameters.
        if keras.config.backend() == "torch":
            self._track_variables()

    if keras.config.backend() == "torch":

        def named_parameters(self, *args, **kwargs):
            """`torch.nn.Module.named_parameters` of the present weights.

            LoRA and quantization change weights after their registration.
            """
            self._track_variables()
            return super().named_parameters(*args, **kwargs)

    def compile_from_config(self, config):
        super().compile_from_config(with_public_optimizers(config))

    def quantize(self, mode=None, config=None, **kwargs):
        check_quantization(mode)
        # KerasHub 0.33 would take only functions as `filters`.
        return keras.Model.quantize(self, mode, config=config, **kwargs)

    @classmethod
    def from_preset(cls, preset: FilePath, *args: Any, **kwargs: Any) -> Self:
        """Loads a model from a preset, like KerasHub's classes."""
        preset = find_preset(preset)
        if kwargs.get("dtype") is None:
            kwargs["dtype"] = saved_policy(preset, cls, kwargs)
        return super().from_preset(preset, *args, **kwargs)

    def save(self, filepath, overwrite=True, **kwargs):
        """Saves the model like `keras.Model.save`, completely or not at all."""
        with atomic_path(filepath, overwrite) as path:
            super().save(path, overwrite=overwrite, **kwargs)

    def save_weights(self, filepath, overwrite=True, **kwargs):
        """Saves weights like `keras.Model.save_weights`, but atomically."""
        with atomic_path(filepath, overwrite) as path:
            super().save_weights(path, overwrite=overwrite, **kwargs)

    def save_to_preset(self, preset_dir: FilePath, **kwargs: Any) -> None:
        """Saves a preset, which replaces an older one as a whole.

        Other files in the folder, such as a model card, stay.

        Raises:
            ValueError: If the folder is or contains the working directory.
        """
        folder = pathlib.Path(preset_dir).resolve()
        if "://" in str(preset_dir) or folder.parent.name.endswith(_PARTIAL):
            super().save_to_preset(os.fspath(preset_dir), **kwargs)
            return
        if pathlib.Path.cwd().is_relative_to(folder):
            raise ValueError(
                "A preset needs a separate folder, because saving replaces it. "
                f"Received: preset_dir={str(preset_dir)!r}, which is or "
                "contains the working directory"
            )
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            dir=folder.parent, prefix=".", suffix=_PARTIAL
        ) as aside:
            path = os.path.join(aside, folder.name)
            super().save_to_preset(path, **kwargs)
            replace_preset(path, folder)

    def export(
        self,
        filepath,
        format="tf_saved_model",
        verbose=None,
        input_signature=None,
        **kwargs,
    ):
        """Exports the model for inference, like `keras.Model.export`.

        Batch sizes and lengths that are `None` in `input_signature` stay open
        in the file, with the same length for all inputs of a sequence. By
        default all are open. Formats other than `"tf_saved_model"` use only
        plain operations for attention; see `keras_synth.routes.portable`.

        Args:
            filepath: Path of the file, which must end in `".onnx"`,
                `".tflite"`, `".xml"` for OpenVINO or `".pt2"` for `"torch"`; or
                folder of a SavedModel.
            format: `"tf_saved_model"`, `"onnx"`, `"openvino"`, `"litert"` or
                `"torch"`. The guide to serving lists the formats of each
                backend.
            verbose: Whether to print the path of the file.
            input_signature: Shapes and dtypes of the inputs, a list with one
                dictionary of `keras.InputSpec`s, named like its keys.
            **kwargs: As for `keras.Model.export`.

        Raises:
            ValueError: If the backend cannot write the format, the format does
                not support open sizes, or a length exceeds the backbone's.
        """
        export(
            self,
            super().export,
            filepath,
            format,
            verbose,
            input_signature,
            **kwargs,
        )


def with_public_optimizers(config: Any) -> Any:
    """Returns a config with optimizers of any backend.

    Keras on PyTorch writes the names of private classes into files. On other
    backends these import PyTorch, and cannot train.
    """
    if not isinstance(config, dict):
        return config
    config = {k: with_public_optimizers(x) for k, x in config.items()}
    if str(config.get("module")).startswith(_OF_TORCH):
        config |= {"module": "keras.optimizers", "registered_name": None}
    return config


@contextlib.contextmanager
def atomic_path(filepath: FilePath, overwrite: bool) -> Iterator[str]:
    """Yields a path whose files then replace the old ones."""
    path = pathlib.Path(os.fspath(filepath)).resolve()  # of a link
    # Keras handles remote and wrong paths, and asks about existing files.
    known = path.name.endswith((".keras", ".h5", ".weights.json"))
    plain = known and "://" not in str(filepath)
    if not plain or (path.exists() and not overwrite):
        yield str(filepath)
        return
    with tempfile.TemporaryDirectory(
        dir=path.parent, prefix=".", suffix=_PARTIAL
    ) as aside:
        yield os.path.join(aside, path.name)
        for file in pathlib.Path(aside).iterdir():
            os.replace(file, path.parent / file.name)


def replace_preset(path: FilePath, folder: pathlib.Path) -> None:
    """Renames a preset, which replaces an older one as a whole."""
    _put_back(folder)
    if folder.exists():
        os.rename(folder, _aside(folder))
    try:
        os.rename(path, folder)
    finally:
        _put_back(folder)


def _aside(folder):
    """The path of a preset while another one replaces it."""
    return folder.with_name(f".{folder.name}.old")


def find_preset(preset: FilePath) -> str:
    """Returns a preset's path or handle, also after a saving was killed."""
    if not os.path.exists(preset):
        _put_back(pathlib.Path(preset).resolve())
    return os.fspath(preset)


def _put_back(folder):
    """Moves the old preset back, or only its files that are not KerasHub's.

    If saving is killed, the old preset keeps its other name.
    """
    old = _aside(folder)
    if not old.exists():
        return
    if not folder.exists():
        os.rename(old, folder)
        return
    for path in old.iterdir():
        place = folder / path.name
        if not _FILES.fullmatch(path.name) and not place.exists():
            os.rename(path, place)
    shutil.rmtree(old)


def saved_policy(preset: str, cls: type, options: dict[str, Any]) -> Any | None:
    """Returns the dtype policy for a model, or `None` for KerasHub's choice.

    `options` are the keyword arguments of `cls.from_preset`.
    """
    task = read_json(preset, "task.json")
    config = read_json(preset, "config.json").get("config", {})
    name = task.get("registered_name", "").rpartition(">")[2]
    if name == cls.__name__ and "num_classes" not in options:
        # With the policies of quantized output layers.
        config = task["config"]["backbone"]["config"]
    policy = config.get("dtype") or {}
    if policy.get("class_name") == "DTypePolicyMap":
        return keras.dtype_policies.deserialize(policy)
    if str(policy.get("config", {}).get("name")).startswith("mixed_"):
        # KerasHub's tasks do not load: "Invalid dtype: mixed_bfloat16".
        return keras.config.dtype_policy()
    return None


def read_json(preset: str, name: str) -> dict[str, Any]:
    """Returns the content of a file of a preset, `{}` if it is not there."""
    get_file = keras_hub_part("utils.preset_utils", "get_file") or os.path.join
    try:
        return json.loads(
            pathlib.Path(get_file(preset, name)).read_text("utf-8")
        )
    except FileNotFoundError:
        return {}
