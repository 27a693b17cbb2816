"""LoRA files of other backbones, and other files."""

import h5py
import numpy as np
import pytest
from backend import slow_but_on

from keras_synth import models

pytestmark = slow_but_on("torch")  # files depend on no backend
FACTOR = "trained/encoder_layer_0/self_attention/synthesizer/lora_R_a"


def backbone(synthesizer="R", hidden_dim=8, length=8, layers=1):
    return models.SynthesizerBackbone(
        20,
        layers,
        2,
        hidden_dim,
        8,
        synthesizer,
        max_sequence_length=length,
    )


@pytest.fixture
def saved(tmp_path):
    model = backbone()
    model.enable_lora(2)
    model.save_lora_weights(str(tmp_path / "one.lora.h5"))
    return tmp_path / "one.lora.h5"


@pytest.mark.parametrize(
    "options",
    [
        {"synthesizer": "V"},
        {"synthesizer": "D"},
        {"synthesizer": "FR"},
        {"synthesizer": "R+V"},
        {"layers": 2},
        {"hidden_dim": 16},
        {"length": 16},
    ],
    ids=str,
)
def test_weights_of_another_backbone_are_refused(options, saved):
    other = backbone(**options)
    before = {w.path: (np.array(w), w.trainable) for w in other.weights}
    with pytest.raises(ValueError, match="same synthesizer") as error:
        other.load_lora_weights(saved)
    assert "\n" not in str(error.value)
    assert "one.lora.h5" in str(error.value)
    # Nothing has been loaded, nor LoRA enabled.
    assert {w.path for w in other.weights} == {*before}
    for weight in other.weights:
        value, trainable = before[weight.path]
        np.testing.assert_array_equal(np.array(weight), value)
        assert weight.trainable == trainable


def test_other_files_are_refused(saved, tmp_path):
    model = backbone()
    model.save_weights(tmp_path / "whole.weights.h5")
    (tmp_path / "text.lora.h5").write_text("text")
    for name in ("whole.weights.h5", "text.lora.h5"):
        with pytest.raises(ValueError, match=f"save_lora_weights.*{name}"):
            model.load_lora_weights(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        model.load_lora_weights(tmp_path / "none.lora.h5")
    model.load_lora_weights(saved)
    with h5py.File(saved, "a") as file:
        del file[FACTOR]
    with pytest.raises(ValueError, match=r"target_layer_names.*lora_R_a"):
        backbone().load_lora_weights(saved)
