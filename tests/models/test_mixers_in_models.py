"""Models with any mixer: lists, biases, refusals."""

import keras
import numpy as np
import pytest
from arrays import normal, padding
from backend import numpy
from language_models import language_model

from keras_synth import layers, mixers, models, synthesizers

H, K, D, N, T = 2, 4, 8, 9, 7


@pytest.mark.parametrize(
    "fnet", ["fnet", mixers.FourierMixer(), {"config": {}}, ["V", "fnet"]]
)
def test_decoders_need_mixers_with_a_causal_form(fnet):
    if isinstance(fnet, dict):
        fnet = keras.saving.serialize_keras_object(mixers.FourierMixer())
    options = {
        "vocabulary_size": 9,
        "num_layers": 2,
        "num_heads": H,
        "hidden_dim": D,
        "intermediate_dim": 16,
        "synthesizer": fnet,
    }
    with pytest.raises(ValueError, match=r"no causal form.*Received"):
        models.SynthesizerBackbone(**options, causal=True)
    with pytest.raises(ValueError, match=r"no causal form.*Received"):
        models.SynthesizerSeq2SeqBackbone(**options)
    models.SynthesizerSeq2SeqBackbone(**options, decoder_synthesizer="V")
    with pytest.raises(ValueError, match=r"cross-attention.*Received"):
        models.SynthesizerSeq2SeqBackbone(
            **{**options, "synthesizer": "V"}, cross_synthesizer=fnet
        )


def test_a_list_must_name_one_for_each_layer():
    with pytest.raises(ValueError, match=r"one for each layer.*Received: 3"):
        language_model(["V", "R", "D"])
    mixed = language_model(["V", "linear"])
    kinds = [type(block.attention) for block in mixed.backbone.stack.blocks]
    assert kinds == [layers.SyntheticAttention, mixers.LinearAttention]


def test_a_classifier_with_fnet_trains_and_is_saved(tmp_path):
    def classifier():
        backbone = models.SynthesizerBackbone(
            vocabulary_size=9,
            num_layers=2,
            num_heads=H,
            hidden_dim=D,
            intermediate_dim=16,
            synthesizer=[mixers.FourierMixer(), "R + V"],
            max_sequence_length=N,
        )
        return models.SynthesizerTextClassifier(backbone, num_classes=2)

    ids = np.random.default_rng(0).integers(1, 9, (8, N))
    x = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    model = classifier()
    model.fit(x, np.arange(8) % 2, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert isinstance(
        loaded.backbone.stack.blocks[0].attention, mixers.FourierMixer
    )
    np.testing.assert_allclose(
        loaded.predict(x, verbose=0), model.predict(x, verbose=0), atol=1e-5
    )


def test_an_attention_bias_passes_through_backbones():
    """As ALiBi's table does by name."""
    options = {
        "vocabulary_size": 9,
        "num_layers": 2,
        "num_heads": H,
        "hidden_dim": D,
        "intermediate_dim": 16,
        "max_sequence_length": N,
    }
    ids = np.random.default_rng(0).integers(1, 9, (3, T))
    x = {
        "token_ids": ids,
        "padding_mask": padding(T, 4, 1, size=T).astype("int32"),
    }
    table = synthesizers.get("alibi", H).call(normal(1, T, D)).bias
    plain = models.SynthesizerBackbone(**options, synthesizer="V")
    alibi = models.SynthesizerBackbone(**options, synthesizer="alibi + V")
    alibi.set_weights(plain.get_weights())
    real = padding(T, 4, 1, size=T)
    found = numpy(plain(x, attention_bias=table))[real]
    np.testing.assert_allclose(found, numpy(alibi(x))[real], atol=1e-5)
    assert np.abs(found - numpy(plain(x))[real]).max() > 1e-3
    # In a functional model, too.
    inputs = {k: keras.Input((None,), dtype="int32", name=k) for k in x}
    bias = keras.Input((H, None, None), name="bias")
    model = keras.Model(
        {**inputs, "bias": bias}, plain(inputs, attention_bias=bias)
    )
    tables = np.repeat(numpy(table), 3, axis=0)
    again = numpy(model({**x, "bias": tables}))[real]
    np.testing.assert_allclose(again, found, atol=1e-5)


def test_attention_biases_pass_through_both_sides():
    backbone = models.SynthesizerSeq2SeqBackbone(
        vocabulary_size=9,
        num_layers=1,
        num_heads=H,
        hidden_dim=D,
        intermediate_dim=16,
        synthesizer="V",
    )
    ids = np.random.default_rng(0).integers(1, 9, (3, T))
    x = {
        f"{side}_{name}": values[:, :size]
        for side, size in (("encoder", T), ("decoder", T - 2))
        for name, values in (
            ("token_ids", ids),
            ("padding_mask", np.ones_like(ids)),
        )
    }
    plain = {k: numpy(v) for k, v in backbone(x).items()}
    zeros, changed = {}, {}
    for name, rows, columns in (
        ("encoder", T, T),
        ("decoder", T - 2, T - 2),
        ("cross", T - 2, T),
    ):
        bias = normal(1, H, rows, columns, seed=5)
        zeros[f"{name}_attention_bias"] = 0 * bias
        outputs = backbone(x, **{f"{name}_attention_bias": 3 * bias})
        changed[name] = [
            key
            for key, value in outputs.items()
            if np.abs(numpy(value) - plain[key]).max() > 1e-4
        ]
    both = ["encoder_sequence_output", "decoder_sequence_output"]
    assert changed == {"encoder": both, "decoder": both[1:], "cross": both[1:]}
    for key, value in backbone(x, **zeros).items():
        np.testing.assert_allclose(numpy(value), plain[key], atol=1e-5)
