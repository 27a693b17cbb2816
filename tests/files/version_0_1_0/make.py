"""Made the files in this folder, with version 0.1.0, on PyTorch.

Models were built before each was saved: the names of its layers are counted.
"""

import pathlib
import zipfile

import keras
import numpy as np

import keras_synth
from keras_synth import models

FOLDER = pathlib.Path(__file__).parent
RNG = np.random.default_rng(0)
expected = {
    "token_ids": RNG.integers(1, 20, (2, 8)).astype("int32"),
    "padding_mask": (np.arange(8) < [[8], [5]]).astype("int32"),
    "x": RNG.normal(size=(2, 8, 8)).astype("float32"),
    "source": RNG.normal(size=(2, 6, 8)).astype("float32"),
}


def backbone(*synthesizers):
    return models.SynthesizerBackbone(
        20,
        len(synthesizers),
        2,
        8,
        8,
        [*synthesizers],
        dropout=0.0,
        max_sequence_length=8,
    )


def classifier(*synthesizers):
    return models.SynthesizerTextClassifier(
        backbone(*synthesizers), 3, dropout=0.0
    )


def save(name, model, inputs, quantize=None):
    for weight in model.weights:
        weight.assign(RNG.normal(scale=0.4, size=weight.shape))
    if quantize:
        model.quantize(quantize)
    inputs = [expected[i] for i in inputs] if len(inputs) > 1 else expected["x"]
    if isinstance(model.input, dict):
        inputs = {i: expected[i] for i in ("token_ids", "padding_mask")}
    expected[name] = model.predict(inputs, verbose=0)
    file = FOLDER / f"{name}.keras"
    model.save(file)
    with zipfile.ZipFile(file) as parts:
        contents = {part: parts.read(part) for part in parts.namelist()}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as parts:
        for part, content in contents.items():
            parts.writestr(part, content)


if __name__ == "__main__":
    assert keras_synth.__version__ == "0.1.0"
    keras.utils.set_random_seed(1)
    ids = ["token_ids", "padding_mask"]
    save("classifier", classifier("R+V", "D", "FR"), ids)
    x, source = keras.Input((None, 8)), keras.Input((None, 8))
    decoder = keras_synth.layers.SynthesizerDecoder(
        8, 2, synthesizer="D+V", max_length=8, cross_synthesizer="R"
    )
    save(
        "decoder",
        keras.Model([x, source], decoder(x, source)),
        ["x", "source"],
    )
    attention = keras_synth.layers.SyntheticAttention(
        2, 4, synthesizer="R+V", max_length=8
    )
    encoder = keras_synth.layers.SynthesizerEncoder(
        8, 2, synthesizer=keras_synth.synthesizers.get("R+V", 2, 4, 8)
    )
    save("objects", keras.Model(x, encoder(attention(x))), ["x"])
    save("int8", backbone("R+V", "D+V+V", "FD"), ids, "int8")
    np.savez_compressed(FOLDER / "expected.npz", **expected)
