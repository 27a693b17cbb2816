"""Small models of every kind whose attention can be seen, and their inputs."""

import keras
import keras_hub
import numpy as np

from keras_synth import models

B, T, S, H, D = 3, 5, 7, 2, 8
LENGTHS, SOURCE_LENGTHS = (5, 3, 4), (4, 7, 6)


def _real(lengths, length):
    return (np.arange(length) < np.array(lengths)[:, None]).astype("int32")


def _ids(length):
    return np.random.default_rng(length).integers(4, 30, (B, length))


def of_one():
    return {"token_ids": _ids(T), "padding_mask": _real(LENGTHS, T)}


def of_segments():
    return {**of_one(), "segment_ids": np.zeros((B, T), "int32")}


def of_two():
    return {
        "encoder_token_ids": _ids(S),
        "encoder_padding_mask": _real(SOURCE_LENGTHS, S),
        "decoder_token_ids": _ids(T),
        "decoder_padding_mask": _real(LENGTHS, T),
    }


def _backbone(synthesizer, **options):
    return models.SynthesizerBackbone(
        30, 2, H, D, 12, synthesizer, max_sequence_length=S, **options
    )


def _two_attentions():
    """One layer that is called twice, with masks that its inputs carry."""
    ids = keras.Input((None,), dtype="int32", name="token_ids")
    x = keras.layers.Embedding(30, D, mask_zero=True)(ids)
    layer = keras.layers.MultiHeadAttention(H, 4, name="attention")
    x = layer(x, x)
    return keras.Model({"token_ids": ids}, layer(x, x, use_causal_mask=True))


def _masked_ids():
    given = of_one()
    return {"token_ids": given["token_ids"] * given["padding_mask"]}


KERAS_HUB = {"max_sequence_length": S}
# Name -> function that makes a model, and its inputs.
MODELS = {
    "R+V": (lambda: _backbone("R+V"), of_one),
    "causal task": (
        lambda: models.SynthesizerCausalLM(_backbone("R+V", causal=True)),
        of_one,
    ),
    "head groups": (
        lambda: _backbone("heads(1 * D + 1 * mixture(relative + V))"),
        of_one,
    ),
    "seq2seq": (
        lambda: models.SynthesizerSeq2SeqBackbone(
            30, 1, H, D, 12, "R", max_sequence_length=S
        ),
        of_two,
    ),
    "BERT": (
        lambda: keras_hub.models.BertBackbone(30, 2, H, D, 12, **KERAS_HUB),
        of_segments,
    ),
    "RoBERTa": (
        lambda: keras_hub.models.RobertaBackbone(30, 2, H, D, 12, **KERAS_HUB),
        of_one,
    ),
    "DistilBERT": (
        lambda: keras_hub.models.DistilBertBackbone(
            30, 2, H, D, 12, **KERAS_HUB
        ),
        of_one,
    ),
    "GPT-2": (
        lambda: keras_hub.models.GPT2Backbone(30, 2, H, D, 12, **KERAS_HUB),
        of_one,
    ),
    "functional": (_two_attentions, _masked_ids),
}


def made(name):
    """A model, whose weights are not small, and a batch of its inputs."""
    make, inputs = MODELS[name]
    model = make()
    rng = np.random.default_rng(1)
    for weight in model.weights:
        value = keras.ops.convert_to_numpy(weight)
        if weight.trainable:
            weight.assign(value + 0.3 * rng.normal(size=weight.shape))
    return model, inputs()
