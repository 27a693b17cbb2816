"""An integer in a list of synthesizers: one of several layers."""

import keras
import numpy as np
import pytest
from assertions import close
from backend import numpy

import keras_synth
from keras_synth import models, surgery

IDS = np.random.default_rng(0).integers(1, 50, (2, 10)).astype("int32")
SIZES = {"vocabulary_size": 50, "num_heads": 2, "hidden_dim": 16}
SIZES |= {"intermediate_dim": 32, "max_sequence_length": 12}
INPUTS = {"token_ids": IDS, "padding_mask": np.ones_like(IDS)}


def backbone(synthesizer, **options):
    return models.SynthesizerBackbone(
        **SIZES,
        num_layers=len(synthesizer),
        dropout=0,
        synthesizer=synthesizer,
        **options,
    )


def outputs(model):
    return numpy(model(INPUTS))


def synthesizers(model):
    return [
        weight.path.split("/self_attention/")[0]
        for weight in model.weights
        if "/synthesizer/" in weight.path
    ]


@pytest.fixture(scope="module")
def shared():
    return backbone(["R", 0, "D", 2, 1])


def copied(model):
    other = type(model).from_config(model.get_config())
    models.copy_weights(model, other)
    return other


def with_own(shared):
    """The same function, of a model whose layers each have their own."""
    own = backbone(["R", "R", "D", "D", "R"])
    given = {weight.path: weight for weight in shared.weights}
    owners = {1: 0, 3: 2, 4: 0}
    for weight in own.weights:
        path = weight.path
        if "/synthesizer/" in path:
            layer = int(path.split("/")[0].removeprefix("encoder_layer_"))
            owner = owners.get(layer, layer)
            path = path.replace(f"layer_{layer}", f"layer_{owner}", 1)
        weight.assign(numpy(given[path].value))
    return own


def test_weights_are_counted_once_and_used_in_each(shared):
    assert {*synthesizers(shared)} == {"encoder_layer_0", "encoder_layer_2"}
    own = with_own(shared)
    table = 2 * 12 * 12
    dense = sum(
        int(np.prod(weight.shape))
        for weight in own.weights
        if "encoder_layer_3/self_attention/synthesizer" in weight.path
    )
    assert shared.count_params() == own.count_params() - 2 * table - dense
    close(outputs(shared), outputs(own), atol=1e-6)


@pytest.mark.parametrize("form", ["file", "preset", "clone", "fold"])
def test_it_survives(shared, form, tmp_path):
    if form == "file":
        shared.save(tmp_path / "model.keras")
        other = keras.models.load_model(tmp_path / "model.keras")
    elif form == "preset":
        shared.save_to_preset(tmp_path / "preset")
        other = models.SynthesizerBackbone.from_preset(str(tmp_path / "preset"))
    elif form == "clone":
        other = copied(shared)
    else:
        other = keras_synth.fold(shared)
    assert other.synthesizer[1::2] == [0, 2]
    assert other.count_params() <= shared.count_params()
    close(outputs(other), outputs(shared))


def test_a_step_of_training_moves_the_table_by_both_gradients(shared):
    model, own = copied(shared), with_own(shared)
    targets = np.random.default_rng(1).normal(size=(2, 10, 16))
    for each in (model, own):
        each.compile(keras.optimizers.SGD(100.0), loss="mse")
        each.fit(INPUTS, targets, epochs=1, verbose=0)
    before = {weight.path: numpy(weight.value) for weight in shared.weights}
    (moved,) = [w for w in model.weights if w.path.endswith("/R")]
    steps = [
        numpy(weight.value) - before[moved.path]
        for weight in own.weights
        if weight.path.endswith("/R")
    ]
    assert len(steps) == 3
    assert all(np.abs(step).max() > 1e-3 for step in steps)
    close(numpy(moved.value) - before[moved.path], sum(steps))


def test_lengths_lora_and_quantization(shared):
    longer = surgery.lengthen(shared, 24)
    close(outputs(longer), outputs(shared), atol=1e-6)
    assert longer.synthesizer == shared.synthesizer
    adapted = copied(shared)
    adapted.enable_lora(2)
    close(outputs(adapted), outputs(shared), atol=1e-6)
    names = [weight.name for weight in adapted.trainable_weights]
    assert names.count("lora_R_a") == 1
    adapted.quantize("int8")
    close(outputs(adapted), outputs(shared), atol=0.2)


def test_tokens_decoded_one_by_one_equal_those_of_the_whole():
    model = backbone(["R + V", 0, "D", 2], causal=True)
    expected = outputs(model)
    caches, steps = model.stack.make_caches(2, 10), []
    for at in range(10):
        step, caches = model.stack.call_with_caches(
            IDS[:, at : at + 1], caches, at
        )
        steps.append(numpy(step))
    close(np.concatenate(steps, axis=1), expected)


def test_the_stacks_of_a_translator_share_apart():
    model = models.SynthesizerSeq2SeqBackbone(
        **SIZES, num_layers=2, synthesizer=["R", 0], cross_synthesizer=["V", 0]
    )
    paths = [w.path for w in model.weights if "/synthesizer/" in w.path]
    assert [path for path in paths if path.endswith("/R")] == [
        "encoder_layer_0/self_attention/synthesizer/R",
        "decoder_layer_0/self_attention/synthesizer/R",
    ]
    crossing = {p.split("/")[0] for p in paths if "/cross_attention/" in p}
    assert crossing == {"decoder_layer_0"}


@pytest.mark.parametrize("wrong", [["R", 1], [0, "R"], ["R", -1], ["R", True]])
def test_a_missing_earlier_layer_is_an_error(wrong):
    with pytest.raises(ValueError, match=r"earlier layer.*Received: .* layer"):
        backbone(wrong)


def test_a_mixer_without_logits_shares_nothing():
    with pytest.raises(ValueError, match=r"FourierMixer .*'fnet'"):
        backbone(["fnet", 0])
