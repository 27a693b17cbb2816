"""`ModelMixin`: files, exports and parameters of backbones and tasks."""

import contextlib
import os
import pathlib
import re
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any, Self

import keras

from keras_synth._backend.policies import check_quantization
from keras_synth.models.saving.exporting import export
from keras_synth.types import FilePath, Mixin

_PARTIAL = ".partial"  # ends the name of a folder that is being written
# What KerasHub writes into the folder of a preset.
_FILES = re.compile(
    r"(config|metadata|preprocessor|task|tokenizer)\.json|assets"
    r"|(model|model_\d+|task)\.weights\.(h5|json)"
)


class ModelMixin(Mixin):
    """What backbones and tasks add to KerasHub's saving and exporting.

    Mixed into a KerasHub model before its base class. `save`, `save_weights`
    and `save_to_preset` write beside the old file or folder and rename, so
    that an error while writing leaves the old one as it was.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # KerasHub 0.32 sets attributes past `torch.nn.Module`, which then sees
        # no parameters.
        if keras.config.backend() == "torch":
            self._track_variables()

    if keras.config.backend() == "torch":

        def named_parameters(self, *args, **kwargs):
            """`torch.nn.Module.named_parameters`, of the weights as they are.

            LoRA and quantization change a layer's weights after the model
            registered them.
            """
            self._track_variables()
            return super().named_parameters(*args, **kwargs)

    def quantize(self, mode=None, config=None, **kwargs):
        check_quantization(mode)
        return super().quantize(mode, config=config, **kwargs)

    @classmethod
    def from_preset(cls, preset: FilePath, *args: Any, **kwargs: Any) -> Self:
        """Loads a model from a preset, as KerasHub's classes do."""
        preset = os.fspath(preset)
        if not os.path.exists(preset):
            _put_back(pathlib.Path(preset).resolve())
        return super().from_preset(preset, *args, **kwargs)

    def save(self, filepath, overwrite=True, **kwargs):
        """Saves the model as `keras.Model.save` does, or not at all."""
        with _beside(filepath, overwrite) as path:
            super().save(path, overwrite=overwrite, **kwargs)

    def save_weights(self, filepath, overwrite=True, **kwargs):
        """Saves the weights as `keras.Model.save_weights`, or not at all."""
        with _beside(filepath, overwrite) as path:
            super().save_weights(path, overwrite=overwrite, **kwargs)

    def save_to_preset(self, preset_dir: FilePath, **kwargs: Any) -> None:
        """Saves a preset, which takes the place of an older one as a whole.

        Files of the folder that are not KerasHub's, such as a model card, stay
        in it.

        Raises:
            ValueError: If the folder is the working directory or above it.
        """
        folder = pathlib.Path(preset_dir).resolve()
        if "://" in str(preset_dir) or folder.parent.name.endswith(_PARTIAL):
            super().save_to_preset(os.fspath(preset_dir), **kwargs)
            return
        if pathlib.Path.cwd().is_relative_to(folder):
            raise ValueError(
                "A preset needs a folder of its own: it is replaced as a whole."
                f" Received: preset_dir={str(preset_dir)!r}, the working "
                "directory or above it"
            )
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            dir=folder.parent, prefix=".", suffix=_PARTIAL
        ) as aside:
            path = os.path.join(aside, folder.name)
            super().save_to_preset(path, **kwargs)
            _put_back(folder)
            if folder.exists():
                os.rename(folder, _aside(folder))
            try:
                os.rename(path, folder)
            finally:
                _put_back(folder)

    def export(
        self,
        filepath,
        format="tf_saved_model",
        verbose=None,
        input_signature=None,
        **kwargs,
    ):
        """Exports the model for inference, as `keras.Model.export` does.

        Batch sizes and lengths that `input_signature` leaves open stay open
        in the file, the same length for all inputs of a sequence; by default
        all are open. All formats except `"tf_saved_model"` hold attention in
        plain operations, see `keras_synth.routes.portable`.

        Args:
            filepath: Path of the file; its ending gives the format: `".onnx"`,
                `".tflite"`, `".xml"` for OpenVINO, `".pt2"` for `"torch"`, and
                none for the folder of a SavedModel.
            format: `"tf_saved_model"`, `"onnx"`, `"openvino"`, `"litert"` or
                `"torch"`; the guide to serving says which backend writes
                which.
            verbose: Whether to print where the file is.
            input_signature: Shapes and dtypes of the inputs, a list of one
                dictionary of `keras.InputSpec`s named as its keys.
            **kwargs: As for `keras.Model.export`.

        Raises:
            ValueError: If the backend does not write the format, the format
                cannot leave open what is open, or a length is above the
                backbone's.
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


@contextlib.contextmanager
def _beside(filepath: FilePath, overwrite: bool) -> Iterator[str]:
    """Yields a path to write to, whose files then replace the old ones."""
    path = pathlib.Path(os.fspath(filepath))
    # Keras handles remote and misnamed paths, and asks about existing ones.
    plain = path.suffix in (".keras", ".h5") and "://" not in str(filepath)
    if not plain or (path.exists() and not overwrite):
        yield str(filepath)
        return
    with tempfile.TemporaryDirectory(
        dir=path.parent, prefix=".", suffix=_PARTIAL
    ) as aside:
        yield os.path.join(aside, path.name)
        for file in pathlib.Path(aside).iterdir():
            os.replace(file, path.parent / file.name)


def _aside(folder):
    """Where a preset is while another one takes its place."""
    return folder.with_name(f".{folder.name}.old")


def _put_back(folder):
    """Moves what is aside back: the preset, or files that are not KerasHub's.

    It stays aside if saving is killed.
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
