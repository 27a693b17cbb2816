"""Models that decode, and those of this package: made from arguments."""

from operator import attrgetter
from typing import Any

import keras
import keras_hub
from keras import ops

from keras_synth import models
from keras_synth._backend.checks import check_positive
from keras_synth.folding.folding import keep_sampler
from keras_synth.models import (
    SynthesizerBackbone,
    SynthesizerSeq2SeqBackbone,
)
from keras_synth.surgery.conversions import (
    block_pairs,
    check_compares,
    register,
)
from keras_synth.surgery.copying import cut_to
from keras_synth.surgery.places import attention_of, holders

LENGTHS = ("max_sequence_length", "max_decoder_length")
# Arguments of KerasHub's decoders.
_SIZES = (
    "vocabulary_size",
    "num_layers",
    "num_heads",
    "hidden_dim",
    "intermediate_dim",
    "dropout",
)
# For T5, whose normalization layers do not have their own paths.
_T5_BLOCK = {
    "self_attention_layer_norm.weight": "attention_residual.norm.scale",
    "cross_attention_layer_norm.weight": "cross_residual.norm.scale",
    "layer_norm.weight": "feed_forward_residual.norm.scale",
    "input_projector.kernel": "feed_forward.intermediate.kernel",
    "gate_projector.kernel": "feed_forward.gate.kernel",
    "output_projector.kernel": "feed_forward.output_dense.kernel",
}
_T5_ATTENTION = {
    "query_projector": "synthesizer.query",
    "key_projector": "synthesizer.key",
    "value_projector": "value",
    "output_projector": "attention_output",
}


def with_length(
    options: dict[str, Any], max_length: int | None
) -> dict[str, Any]:
    """Returns arguments of a backbone for sequences up to a length."""
    own = {name: options[name] for name in LENGTHS if name in options}
    if max_length is None and None in own.values():
        raise ValueError(
            "The model accepts sequences of any length. Specify how long they "
            "may be, as in max_length=512. "
            "Received: max_length=None"
        )
    if max_length is None:
        return options
    check_positive("max_length", max_length)
    lengths = {name: min(max_length, own[name] or max_length) for name in own}
    return {**options, **lengths}


def _own(backbone, clone):
    for holder in holders(backbone):
        check_compares(attention_of(holder))
    config = with_length(backbone.get_config(), clone.max_length)
    made = type(backbone).from_config(config)
    for pair in zip(holders(backbone), holders(made), strict=True):
        clone.pair(*pair)
    return made, [(backbone, made)]


for _class in (SynthesizerBackbone, SynthesizerSeq2SeqBackbone):
    register(_class, _own)


@register(keras_hub.models.GPT2CausalLM)
def _gpt2_causal_lm(task, clone):
    return _task(task, clone, models.SynthesizerCausalLM)


@register(keras_hub.models.T5Seq2SeqLM)
def _t5_seq2seq_lm(task, clone):
    return _task(task, clone, models.SynthesizerSeq2SeqLM)


def _task(task, clone, cls):
    """A task with the embedding as its output layer."""
    preprocessor = cut_to(task.preprocessor, clone.max_length)
    made = cls(clone(task.backbone), preprocessor=preprocessor)
    keep_sampler(task, made)
    return made


@register(keras_hub.models.GPT2Backbone)
def _gpt2(backbone, clone):
    options = {
        **{name: getattr(backbone, name) for name in _SIZES},
        "max_sequence_length": backbone.max_sequence_length,
        "activation": keras.saving.get_registered_object(
            "keras_hub>gelu_approximate"
        ),
        "layer_norm_epsilon": 1e-5,
        "causal": True,
    }
    made = SynthesizerBackbone(
        **with_length(options, clone.max_length),
        synthesizer="V",
        dtype=backbone.dtype_policy,
        name=backbone.name,
    )
    stack = made.stack
    parts = [
        (backbone.position_embedding, stack.position_embedding),
        (backbone.token_embedding, stack.token_embedding),
        (backbone.layer_norm, stack.layer_norm),
    ]
    for old, new in zip(backbone.transformer_layers, stack.blocks, strict=True):
        clone.pair(old, new)
        parts += block_pairs(old, new)
    return made, parts


@register(keras_hub.models.T5Backbone)
def _t5(backbone, clone):
    """For T5, which does not divide logits by `sqrt(k)`."""
    tied = backbone.tie_embedding_weights
    key_dim = (
        backbone.key_value_dim or backbone.hidden_dim // backbone.num_heads
    )
    options = {
        **{name: getattr(backbone, name) for name in _SIZES},
        "num_decoder_layers": backbone.num_layers,
        "key_dim": key_dim,
        "activation": backbone.activation,
        "use_gated_activation": backbone.use_gated_activation,
        "layer_norm_epsilon": backbone.layer_norm_epsilon,
        "normalization": "rms_normalization",
        "positions": "t5_relative",
        "attention_use_bias": False,
        "feed_forward_use_bias": False,
        "feed_forward_dropout": backbone.dropout,
        "scale_output": tied,
        "tie_embedding_weights": tied,
        "max_sequence_length": None,
        "max_decoder_length": None,
    }
    made = SynthesizerSeq2SeqBackbone(
        **with_length(options, clone.max_length),
        synthesizer="V",
        dtype=backbone.dtype_policy,
        name=backbone.name,
    )
    for side, stack in (("encoder", made.encoder), ("decoder", made.decoder)):
        layers = getattr(backbone, f"{side}_transformer_layers")
        last = getattr(backbone, f"{side}_layer_norm")
        table = layers[0].self_attention.relative_attention_bias
        stack.layer_norm.scale.assign(last.weight)
        stack.position_bias.table.relative_attention_bias.assign(table)
        for old, new in zip(layers, stack.blocks, strict=True):
            clone.pair(old, new)
            _fill_t5_block(old, new, key_dim**0.5, clone)
    return made, [(backbone.token_embedding, made.token_embedding)]


def _fill_t5_block(old, new, scale, clone):
    for theirs, ours in _T5_BLOCK.items():
        part, _, weight = theirs.partition(".")
        if hasattr(old, part):
            ours, _, own = ours.rpartition(".")
            layers = getattr(old, part), attrgetter(ours)(new)
            getattr(layers[1], own).assign(getattr(layers[0], weight))
            clone.pair(*layers)
    for theirs, attention in (
        ("self_attention", new.attention),
        ("cross_attention", getattr(new, "cross_attention", None)),
    ):
        if not hasattr(old, theirs):
            continue
        clone.pair(getattr(old, theirs), attention)
        for name, ours in _T5_ATTENTION.items():
            projector = attrgetter(f"{theirs}.{name}")(old)
            projection = attrgetter(ours)(attention)
            clone.pair(projector, projection)
            value = ops.convert_to_numpy(projector.kernel)
            value = value * scale if name == "query_projector" else value
            projection.kernel.assign(value.reshape(projection.kernel.shape))
