"""Files of version 0.2.0 load, with the outputs they had."""

import runpy

import keras
import numpy as np
import pytest
from backend import numpy
from places import ROOT

from keras_synth import models

FOLDER = ROOT / "tests" / "files" / "version_0_2_0"
EXPECTED = np.load(FOLDER / "expected.npz")
inputs_of = runpy.run_path(str(FOLDER / "make.py"))["inputs_of"]
# What is quantized may be rounded the other way.
TOLERANCES = {"int8": 1e-4, "int4": 1e-4}


def check(model, name):
    found = model(inputs_of(model, EXPECTED))
    found = (
        {f"{name}: {part}": x for part, x in found.items()}
        if isinstance(found, dict)
        else {name: found}
    )
    for part, x in found.items():
        np.testing.assert_allclose(
            numpy(x),
            EXPECTED[part],
            atol=TOLERANCES.get(name, 1e-5),
            err_msg=part,
        )


@pytest.mark.parametrize(
    "path", sorted(FOLDER.glob("*.keras")), ids=lambda x: x.stem
)
def test_a_file_has_the_outputs_it_had(path):
    check(keras.saving.load_model(path), path.stem)


def test_every_file_is_compared():
    names = {path.stem for path in FOLDER.glob("*.keras")}
    compared = {name.split(":")[0] for name in EXPECTED.files}
    assert names <= compared
    assert len(names) == 12


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("classifier", models.SynthesizerTextClassifier),
        ("translator", models.SynthesizerSeq2SeqLM),
    ],
)
def test_a_preset_has_the_outputs_it_had(name, task):
    check(task.from_preset(str(FOLDER / "presets" / name)), name)


def test_adapted_weights_are_read():
    model = keras.saving.load_model(FOLDER / "lora.keras")
    model.load_lora_weights(str(FOLDER / "adapted.lora.h5"))
    adapted = [w for w in model.weights if "lora" in w.path]
    assert len(adapted) == 10
    assert all(np.abs(numpy(w.value)).min() > 0 for w in adapted)
