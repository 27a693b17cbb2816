"""Small models of every kind whose attention can be seen, and their inputs."""

import keras
import keras_hub
import numpy as np
from noise import noisy

from keras_synth import models

B, T, S, H, D = 3, 5, 7, 2, 8


def _backbone(synthesizer, **options):
    return models.SynthesizerBackbone(
        30, 2, H, D, 12, synthesizer, max_sequence_length=S, **options
    )


def _of_keras_hub(name):
    cls = getattr(keras_hub.models, f"{name}Backbone")
    return cls(30, 2, H, D, 12, max_sequence_length=S)


def _two_attentions():
    """One layer that is called twice, with masks that its inputs carry."""
    ids = keras.Input((None,), dtype="int32", name="token_ids")
    x = keras.layers.Embedding(30, D, mask_zero=True)(ids)
    layer = keras.layers.MultiHeadAttention(H, 4, name="attention")
    x = layer(x, x)
    return keras.Model({"token_ids": ids}, layer(x, x, use_causal_mask=True))


MODELS = {
    "R+V": lambda: _backbone("R+V"),
    "causal task": lambda: models.SynthesizerCausalLM(
        _backbone("R+V", causal=True)
    ),
    "head groups": lambda: _backbone(
        "heads(1 * D + 1 * mixture(relative + V))"
    ),
    "seq2seq": lambda: models.SynthesizerSeq2SeqBackbone(
        30, 1, H, D, 12, "R", max_sequence_length=S
    ),
    "BERT": lambda: _of_keras_hub("Bert"),
    "RoBERTa": lambda: _of_keras_hub("Roberta"),
    "DistilBERT": lambda: _of_keras_hub("DistilBert"),
    "GPT-2": lambda: _of_keras_hub("GPT2"),
    "functional": _two_attentions,
}


def made(name):
    """A model, whose weights are not small, and a batch of its inputs."""
    model = noisy(MODELS[name](), 0.3)
    return model, {x: _input(x, model.input) for x in model.input}


def _input(name, names):
    """Token ids, or what belongs to them, with padding at the end."""
    of_source = name.startswith("encoder_")
    length, real = (S, [4, 7, 6]) if of_source else (T, [5, 3, 4])
    mask = (np.arange(length) < np.array(real)[:, None]).astype("int32")
    if name.endswith("padding_mask"):
        return mask
    if name == "segment_ids":
        return np.zeros((B, length), "int32")
    ids = np.random.default_rng(length).integers(4, 30, (B, length))
    return ids if len(names) > 1 else ids * mask
