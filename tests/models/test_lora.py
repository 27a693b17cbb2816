"""LoRA works for every kind of synthesizer, and its files are checked."""

import h5py
import keras
import numpy as np
import pytest
from assertions import close, equal
from backend import numpy
from every_task import examples, task
from noise import drawn

from keras_synth import models
from keras_synth.synthesizers import RandomSynthesizer

KINDS = ["D+V", "FD", "R", "FR+Fix"]
IDS = np.random.default_rng(0).integers(1, 20, (4, 8)).astype("int32")
INPUTS = {"token_ids": IDS, "padding_mask": np.ones_like(IDS)}


def backbone(synthesizer="R", layers=1, hidden_dim=8, length=8):
    sizes = 20, layers, 2, hidden_dim, 8
    options = {"dropout": 0.0, "max_sequence_length": length}
    made = models.SynthesizerBackbone(*sizes, synthesizer, **options)
    return drawn(made, seed=1)


def trained(model):
    model.compile(keras.optimizers.Adam(0.01), "mse")
    target = np.random.default_rng(2).normal(size=(4, 8, 8))
    model.fit(INPUTS, target, epochs=2, verbose=0)
    return model


def test_lora_trains_every_synthesizer_and_little_else():
    model = backbone(KINDS, 4)
    outputs = numpy(model(INPUTS))
    model.enable_lora(2)
    close(model(INPUTS), outputs, atol=1e-6)
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


@pytest.mark.each_backend
@pytest.mark.parametrize("change", ["lora", "block"])
def test_a_task_trains_the_same_of_its_backbone(change):
    """LoRA, and a single trained block, are parts of frozen layers."""
    model = backbone(layers=2)
    if change == "lora":
        model.enable_lora(2)
    else:
        model.trainable = False
        model.stack.blocks[-1].trainable = True
    before = [weight.trainable for weight in model.weights]
    assert any(before)
    models.SynthesizerMaskedLM(model)
    models.SynthesizerTextClassifier(model, num_classes=2)
    assert [weight.trainable for weight in model.weights] == before


def test_files_of_lora_weights_contain_all_trained_weights(tmp_path):
    model = backbone(KINDS, 4)
    model.enable_lora(2)
    trained(model).save_lora_weights(str(tmp_path / "one.lora.h5"))
    other = backbone(KINDS, 4)
    other.load_lora_weights(str(tmp_path / "one.lora.h5"))
    close(other(INPUTS), model(INPUTS), atol=1e-6)
    model.layers[-1].trainable = True  # and its own weights
    trained(model).save_lora_weights(str(tmp_path / "two.lora.h5"))
    other = backbone(KINDS, 4)
    other.load_lora_weights(str(tmp_path / "two.lora.h5"))
    close(other(INPUTS), model(INPUTS), atol=1e-6)
    wrong = backbone(KINDS, 4)
    wrong.enable_lora(2, ["query", "value"])
    with pytest.raises(ValueError, match="target_layer_names"):
        wrong.load_lora_weights(str(tmp_path / "one.lora.h5"))


@pytest.mark.each_backend
@pytest.mark.parametrize("kind", ["causal_lm", "token_classifier"])
def test_whatever_was_compiled_first_uses_the_updates(kind):
    model, x = task(kind), examples(kind)[0][:1]
    options = {"sampler": "greedy"} if kind == "causal_lm" else {}
    model.compile(**options)
    ways = [model.predict, model.predict_on_batch]
    ways.append(model.generate if options else model.tag)
    before = [way(x) for way in ways]
    model.backbone.enable_lora(2)
    rng = np.random.default_rng(0)
    for weight in model.backbone.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    after = [way(x) for way in ways]
    model.compile(**options)  # forgets whatever was compiled
    expected = [way(x) for way in ways]
    equal(after.pop(), expected.pop())
    close(after, expected)
    assert np.abs(after[0] - before[0]).max() > 1e-2


def test_whole_files_contain_the_sum_and_training_continues(tmp_path):
    model = backbone()
    model.enable_lora(2)
    trained(model).save_weights(tmp_path / "m.weights.h5")
    unadapted, adapted = backbone(), backbone()
    adapted.enable_lora(2)
    for other in (unadapted, adapted):
        other.load_weights(tmp_path / "m.weights.h5")
        close(other(INPUTS), model(INPUTS))
    before = numpy(adapted(INPUTS))
    trained(adapted)
    factor = next(w for w in adapted.weights if w.name == "lora_R_b")
    assert np.abs(numpy(factor.value)).max() > 0
    assert np.abs(numpy(adapted(INPUTS)) - before).max() > 0


def test_lora_needs_a_rank_and_weights():
    layer = RandomSynthesizer(2, 8)
    with pytest.raises(ValueError, match="before you enable LoRA"):
        layer.enable_lora(2)
    layer.build((None, 8, 8))
    with pytest.raises(ValueError, match="rank"):
        layer.enable_lora(0)
    layer.enable_lora(2)
    with pytest.raises(ValueError, match="once"):
        layer.enable_lora(2)
    assert {w.name for w in layer.trainable_weights} == {"lora_R_a", "lora_R_b"}


@pytest.mark.parametrize(
    ("synthesizer", "names"), [("R+V", ["qurey"]), ("fnet", None)]
)
def test_lora_without_a_layer_to_train_is_an_error(
    synthesizer, names, tmp_path
):
    model = backbone(synthesizer=synthesizer)
    with pytest.raises(ValueError, match=r"target_layer_names.*Received"):
        model.enable_lora(2, names)
    assert model.trainable_weights
    path = tmp_path / "none.lora.h5"
    with pytest.raises(ValueError, match=f"no LoRA weights.*{path}"):
        model.save_lora_weights(path)


# Files of other backbones, and other files

FACTOR = "trained/encoder_layer_0/self_attention/synthesizer/lora_R_a"


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
def test_weights_of_another_backbone_are_errors(options, saved):
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
        equal(np.array(weight), value)
        assert weight.trainable == trainable


def test_other_files_are_errors(saved, tmp_path):
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


def test_an_interrupted_save_keeps_the_older_file(saved, monkeypatch):
    before = saved.read_bytes()

    def interrupted(x):
        raise KeyboardInterrupt

    model = backbone()
    model.enable_lora(2)
    monkeypatch.setattr(keras.ops, "convert_to_numpy", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.save_lora_weights(str(saved))
    assert saved.read_bytes() == before
