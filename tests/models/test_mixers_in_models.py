"""Models with any mixer: lists, biases, refusals."""

import keras
import numpy as np
import pytest
import small_tasks
from arrays import normal, padding
from assertions import close
from backend import numpy

from keras_synth import mixers, models, synthesizers

H, D, N, T = 2, 8, 9, 7
SIZES = {**small_tasks.SIZES, "num_layers": 2}
SIZES |= {"vocabulary_size": 9, "max_sequence_length": N}
IDS = np.random.default_rng(0).integers(1, 9, (3, T))


@pytest.mark.parametrize(
    "fnet", ["fnet", mixers.FourierMixer(), {"config": {}}, ["V", "fnet"]]
)
def test_decoders_need_mixers_with_a_causal_form(fnet):
    if isinstance(fnet, dict):
        fnet = keras.saving.serialize_keras_object(mixers.FourierMixer())
    options = {**SIZES, "synthesizer": fnet}
    with pytest.raises(ValueError, match=r"no causal form.*Received"):
        models.SynthesizerBackbone(**options, causal=True)
    with pytest.raises(ValueError, match=r"no causal form.*Received"):
        models.SynthesizerSeq2SeqBackbone(**options)
    models.SynthesizerSeq2SeqBackbone(**options, decoder_synthesizer="V")
    with pytest.raises(ValueError, match=r"cross-attention.*Received"):
        models.SynthesizerSeq2SeqBackbone(
            **{**options, "synthesizer": "V"}, cross_synthesizer=fnet
        )


def test_an_attention_bias_passes_through_backbones():
    """As ALiBi's table does by name."""
    x = {
        "token_ids": IDS,
        "padding_mask": padding(T, 4, 1, size=T).astype("int32"),
    }
    table = synthesizers.get("alibi", H).call(normal(1, T, D)).bias
    plain = models.SynthesizerBackbone(**SIZES, synthesizer="V")
    alibi = models.SynthesizerBackbone(**SIZES, synthesizer="alibi + V")
    alibi.set_weights(plain.get_weights())
    real = padding(T, 4, 1, size=T)
    found = numpy(plain(x, attention_bias=table))[real]
    close(found, numpy(alibi(x))[real])
    assert np.abs(found - numpy(plain(x))[real]).max() > 1e-3
    # In a functional model, too.
    inputs = {k: keras.Input((None,), dtype="int32", name=k) for k in x}
    bias = keras.Input((H, None, None), name="bias")
    model = keras.Model(
        {**inputs, "bias": bias}, plain(inputs, attention_bias=bias)
    )
    tables = np.repeat(numpy(table), 3, axis=0)
    again = numpy(model({**x, "bias": tables}))[real]
    close(again, found)


def test_attention_biases_pass_through_both_sides():
    backbone = models.SynthesizerSeq2SeqBackbone(**SIZES, synthesizer="V")
    x = {
        f"{side}_{name}": values[:, :size]
        for side, size in (("encoder", T), ("decoder", T - 2))
        for name, values in (
            ("token_ids", IDS),
            ("padding_mask", np.ones_like(IDS)),
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
    close(backbone(x, **zeros), plain)
