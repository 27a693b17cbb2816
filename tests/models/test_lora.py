"""LoRA reaches every kind of synthesizer."""

import keras
import numpy as np
import pytest
from backend import numpy

from keras_synth import models
from keras_synth.synthesizers import RandomSynthesizer

KINDS = ["D+V", "FD", "R", "FR+Fix"]
IDS = np.random.default_rng(0).integers(1, 20, (4, 8)).astype("int32")
INPUTS = {"token_ids": IDS, "padding_mask": np.ones_like(IDS)}


def backbone(synthesizer=KINDS):
    made = models.SynthesizerBackbone(
        20,
        len(synthesizer),
        2,
        8,
        8,
        synthesizer,
        dropout=0.0,
        max_sequence_length=8,
    )
    rng = np.random.default_rng(1)
    for weight in made.weights:
        weight.assign(rng.normal(scale=0.4, size=weight.shape))
    return made


def trained(model):
    model.compile(keras.optimizers.Adam(0.01), "mse")
    target = np.random.default_rng(2).normal(size=(4, 8, 8))
    model.fit(INPUTS, target, epochs=2, verbose=0)
    return model


def test_lora_trains_every_synthesizer_and_little_else():
    model = backbone()
    model.enable_lora(2)
    before = {w.path: numpy(w.value) for w in model.weights}
    trained(model)
    for weight in model.weights:
        moved = np.abs(numpy(weight.value) - before[weight.path]).max()
        assert weight.trainable == (moved > 1e-6), weight.path
    found = {
        w.path.split("self_attention/")[-1] for w in model.trainable_weights
    }
    for expected in (
        "value/lora_kernel_a",
        "synthesizer/alphas",
        "synthesizer/part_0/hidden/lora_kernel_a",
        "synthesizer/part_0/W2",
        "synthesizer/part_1/query/lora_kernel_a",
        "synthesizer/hidden/lora_kernel_a",
        "synthesizer/b_A",
        "synthesizer/lora_R_a",
        "synthesizer/lora_R_b",
        "synthesizer/part_0/R1",
    ):
        assert expected in found
    for frozen in (
        "synthesizer/R",
        "synthesizer/part_1/R",  # Fix
        "synthesizer/part_1/key/kernel",
        "synthesizer/hidden/kernel",
        "attention_output/kernel",
    ):
        assert frozen not in found


def test_enabling_lora_changes_no_output():
    model = backbone()
    before = numpy(model(INPUTS))
    model.enable_lora(2)
    np.testing.assert_allclose(numpy(model(INPUTS)), before, atol=1e-6)


def test_files_of_lora_weights_hold_all_that_was_trained(tmp_path):
    model = backbone()
    model.enable_lora(2)
    trained(model).save_lora_weights(str(tmp_path / "one.lora.h5"))
    other = backbone()
    other.load_lora_weights(str(tmp_path / "one.lora.h5"))
    np.testing.assert_allclose(
        numpy(other(INPUTS)), numpy(model(INPUTS)), atol=1e-6
    )
    wrong = backbone()
    wrong.enable_lora(2, ["query", "value"])
    with pytest.raises(ValueError, match="target_layer_names"):
        wrong.load_lora_weights(str(tmp_path / "one.lora.h5"))


def test_whole_files_hold_the_sum_and_training_goes_on(tmp_path):
    model = backbone(["R"])
    model.enable_lora(2)
    trained(model).save_weights(tmp_path / "m.weights.h5")
    plain, adapted = backbone(["R"]), backbone(["R"])
    adapted.enable_lora(2)
    for other in (plain, adapted):
        other.load_weights(tmp_path / "m.weights.h5")
        np.testing.assert_allclose(
            numpy(other(INPUTS)), numpy(model(INPUTS)), atol=1e-5
        )
    before = numpy(adapted(INPUTS))
    trained(adapted)
    factor = next(w for w in adapted.weights if w.name == "lora_R_b")
    assert np.abs(numpy(factor.value)).max() > 0
    assert np.abs(numpy(adapted(INPUTS)) - before).max() > 0


def test_lora_needs_a_rank_and_weights():
    layer = RandomSynthesizer(2, 8)
    with pytest.raises(ValueError, match="needs weights"):
        layer.enable_lora(2)
    layer.build((None, 8, 8))
    with pytest.raises(ValueError, match="rank"):
        layer.enable_lora(0)
    layer.enable_lora(2)
    with pytest.raises(ValueError, match="once"):
        layer.enable_lora(2)
