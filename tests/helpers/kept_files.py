"""Files that every later version loads, as archives in tests/fixtures.

Run as `python tests/helpers/kept_files.py`: makes the files that are missing
and adds their models' outputs to tests/fixtures/outputs.json. It never changes
a file that exists, because later versions have to load the files of older ones.
"""

import json
import pathlib
import shutil
import tempfile

import keras
import numpy as np
from backend import numpy, program
from noise import drawn
from places import ROOT
from small_tasks import task

import keras_synth
from keras_synth import layers, models

FOLDER = ROOT / "tests" / "fixtures"
OUTPUTS = FOLDER / "outputs.json"
TEXTS = ["the film is good", "a dull plot and a dull film but"]
# Of no generator: their numbers may change with NumPy.
TOKENS = np.cos(np.arange(96, dtype="float32")).reshape(2, 6, 8)
SOURCE = np.sin(np.arange(80, dtype="float32")).reshape(2, 5, 8)
IDS = {
    "token_ids": np.arange(16, dtype="int32").reshape(2, 8) % 13 + 1,
    "padding_mask": (np.arange(8) < [[8], [5]]).astype("int32"),
}
# The preset is before LoRA, which needs it.
FILES = {
    "layer": "layer.keras",
    "model": "model.keras",
    "task": "task.keras",
    "weights": "task.weights.h5",
    "preset": "preset",
    "lora": "task.lora.h5",
    "int8": "int8.keras",
    "folded": "folded.keras",
    "plain": "plain.keras",
}


def layer():
    x = keras.Input((None, 8), dtype="float32")
    y = layers.SyntheticAttention(
        2, 4, synthesizer="V+R+FR+Fix+D+FD", max_length=8
    )(x)
    return keras.Model(x, y)


def model():
    x, source = (keras.Input((None, 8), dtype="float32") for _ in range(2))
    y = layers.SynthesizerEncoder(8, 2, synthesizer="R+V", max_length=8)(x)
    y = layers.SynthesizerDecoder(8, 2, synthesizer="D+V", max_length=8)(
        y, source
    )
    return keras.Model([x, source], y)


def plain():
    return keras_synth.fold(drawn(task("classifier")), 8, plain=True)


def quantized():
    made = drawn(task("classifier"))
    made.quantize("int8")
    return made


SAVED = {
    "layer": lambda: drawn(layer()),
    "model": lambda: drawn(model()),
    "task": lambda: drawn(task("classifier")),
    "int8": quantized,
    "folded": lambda: keras_synth.fold(drawn(task("classifier"))),
    "plain": plain,
}


def save(kind, folder):
    """Makes one file."""
    path = folder / FILES[kind]
    if kind == "preset":
        drawn(task("classifier")).save_to_preset(path)
    elif kind == "weights":
        drawn(task("classifier")).save_weights(path)
    elif kind == "lora":
        drawn(adaptable(folder)).save_lora_weights(path)
    else:
        SAVED[kind]().save(path)


def adaptable(folder):
    """The preset's backbone, with LoRA."""
    preset = unpacked("preset", folder)
    backbone = models.SynthesizerBackbone.from_preset(str(preset))
    backbone.enable_lora(2)
    return backbone


def unpacked(kind, folder):
    """Where the file of an archive is."""
    shutil.unpack_archive(FOLDER / f"{kind}.zip", folder)
    return folder / FILES[kind]


def load(kind, folder):
    """The model of an archive, which is unpacked in a folder."""
    path = unpacked(kind, folder)
    if kind == "preset":
        return models.SynthesizerTextClassifier.from_preset(str(path))
    if kind == "weights":
        loaded = task("classifier")
        loaded.load_weights(path)
        return loaded
    if kind == "lora":
        loaded = adaptable(folder)
        loaded.load_lora_weights(str(path))
        return loaded
    return keras.saving.load_model(path)


def outputs(kind, loaded):
    """A model's outputs, from texts if the file contains a vocabulary."""
    inputs = {"layer": TOKENS, "model": [TOKENS, SOURCE]}.get(kind, IDS)
    if kind in ("task", "preset"):
        inputs = loaded.preprocessor(TEXTS)
    return numpy(program(lambda x: loaded(x))(inputs))


def make(kind):
    """Makes an archive; returns its outputs, when it is loaded."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        save(kind, folder)
        shutil.make_archive(FOLDER / kind, "zip", folder, FILES[kind])
    with tempfile.TemporaryDirectory() as folder:
        found = outputs(kind, load(kind, pathlib.Path(folder)))
    return found.astype("float64").round(6).tolist()


def main():
    FOLDER.mkdir(exist_ok=True)
    kept = json.loads(OUTPUTS.read_text()) if OUTPUTS.exists() else {}
    for kind in FILES:
        if not (FOLDER / f"{kind}.zip").exists():
            kept[kind] = make(kind)
    OUTPUTS.write_text(json.dumps(kept) + "\n")


if __name__ == "__main__":
    main()
