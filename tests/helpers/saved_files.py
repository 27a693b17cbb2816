"""Models of every treatment, saved by one process and loaded by another.

Run as `python saved_files.py FOLDER`, with KERAS_BACKEND set: loads what
`save(FOLDER)` saved, after building other models, and writes what the models
give, and their weights' paths and dtypes, to FOLDER/<backend>.npz.
"""

import gc
import json
import pathlib
import sys

import keras
import numpy as np
from backend import numpy
from noise import drawn

from keras_synth import layers, models, synthesizers

RNG = np.random.default_rng(0)
IDS = RNG.integers(1, 20, (2, 8)).astype("int32")
SEEN = (np.arange(8) < [[8], [5]]).astype("int32")
POLICIES = ("mixed_float16", "mixed_bfloat16", "bfloat16", "float16")
QUANTIZED = ("int8", "int4", "float8")
INPUTS = {
    "classifier": {"token_ids": IDS, "padding_mask": SEEN},
    "translator": {
        "encoder_token_ids": IDS,
        "encoder_padding_mask": SEEN,
        "decoder_token_ids": IDS[:, :5],
        "decoder_padding_mask": SEEN[:, :5],
    },
    "layers": [
        RNG.normal(size=(2, 8, 8)).astype("float32"),
        RNG.normal(size=(2, 6, 8)).astype("float32"),
    ],
}


def classifier(dtype=None):
    shared = synthesizers.MixtureSynthesizer(
        [
            synthesizers.DenseSynthesizer(2, 4, 8),
            synthesizers.DotProductSynthesizer(2, 4),
        ],
        share_queries=True,
    )
    names = ["R+V", shared, "D+FD", "FR"]
    backbone = models.SynthesizerBackbone(
        20, 4, 2, 8, 8, names, max_sequence_length=8, dtype=dtype
    )
    return models.SynthesizerTextClassifier(backbone, 3)


def translator(dtype=None):
    backbone = models.SynthesizerSeq2SeqBackbone(
        20, 1, 2, 8, 8, "D+V", "R", "FR+V", max_sequence_length=8, dtype=dtype
    )
    return models.SynthesizerSeq2SeqLM(backbone)


def functional(dtype=None):
    x, source = (keras.Input((None, 8), dtype="float32") for _ in range(2))
    own = synthesizers.get("R+V", 2, 4, 8, dtype=dtype)
    y = layers.SyntheticAttention(2, 4, synthesizer=own, dtype=dtype)(x)
    y = layers.SynthesizerEncoder(
        8, 2, synthesizer="V+D", max_length=8, dtype=dtype
    )(y)
    y = layers.SynthesizerDecoder(
        8, 2, synthesizer=synthesizers.get("D+V", 2, 4, 8), dtype=dtype
    )(y, source)
    return keras.Model([x, source], y)


MAKERS = {
    "classifier": classifier,
    "translator": translator,
    "layers": functional,
}
FILES = [
    "classifier plain",
    "classifier int8",
    "classifier map",
    "classifier lora",
    "classifier bfloat16",
    "translator plain",
    "layers int8",
]
MORE_FILES = [
    *(f"classifier {way}" for way in ("int4", "float8", "float16")),
    *(f"classifier mixed_{half}" for half in ("float16", "bfloat16")),
    "translator int8",
    "translator lora",
    "layers plain",
    "layers mixed_bfloat16",
]


def made(file):
    """The model of a file, its weights drawn at random."""
    kind, way = file.split()
    make = MAKERS[kind]
    model = drawn(make(way if way in POLICIES else None), 1)
    if way in QUANTIZED:
        model.quantize(way)
    elif way == "map":
        model.quantize("int8")
        policies = {
            layer.path: layer.dtype_policy
            for layer in model._flatten_layers()
            if layer.quantization_mode
        }
        mapped = make(keras.dtype_policies.DTypePolicyMap("float32", policies))
        mapped.set_weights(model.get_weights())
        model = mapped
    elif way == "lora":
        model.backbone.enable_lora(2)
        drawn(model, 1)
    return model


def outputs(kind, model):
    return numpy(model(INPUTS[kind]))


def weights(model):
    """Paths and dtypes, as text. Saving merges LoRA's updates."""
    found = [
        (w.path, keras.backend.standardize_dtype(w.dtype))
        for w in model.weights
        if "lora" not in w.path
    ]
    # Keras makes float8's scales before the kernel or after it.
    return json.dumps(sorted(found))


def save(folder, files):
    results = {}
    for file in files:
        model = made(file)
        results[file] = outputs(file.split()[0], model)
        results[f"{file} weights"] = weights(model)
        model.save(folder / f"{file}.keras")
    return results


def load(folder):
    results = {}
    for path in folder.glob("*.keras"):
        model = keras.saving.load_model(path)
        results[path.stem] = outputs(path.stem.split()[0], model)
        results[f"{path.stem} weights"] = weights(model)
    return results


def main(folder):
    gc.freeze()  # see conftest.py
    for make in MAKERS.values():
        make()
    name = f"{keras.backend.backend()}.npz"
    np.savez(folder / name, **load(folder))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
