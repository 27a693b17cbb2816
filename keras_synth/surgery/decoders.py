"""Models that decode, and those of this package: made from arguments."""

from operator import attrgetter

import keras
import keras_hub
from keras import ops

from keras_synth import models
from keras_synth.attention.positions import shortest
from keras_synth.folding.folding import keep_sampler
from keras_synth.models import SynthesizerBackbone, SynthesizerSeq2SeqBackbone
from keras_synth.models.tasks.folding import shortened
from keras_synth.surgery.conversions import (
    block_pairs,
    check_compares,
    register,
)
from keras_synth.surgery.places import holders

# Arguments of KerasHub's decoders.
_SIZES = (
    "vocabulary_size",
    "num_layers",
    "num_heads",
    "hidden_dim",
    "intermediate_dim",
    "dropout",
)
# Parts of T5's blocks and attention layers, and the same parts of ours.
_T5_BLOCK = {
    "self_attention_layer_norm": "attention_residual.norm",
    "cross_attention_layer_norm": "cross_residual.norm",
    "layer_norm": "feed_forward_residual.norm",
    "input_projector": "feed_forward.intermediate",
    "gate_projector": "feed_forward.gate",
    "output_projector": "feed_forward.output_dense",
}
_T5_ATTENTION = {
    "query_projector": "synthesizer.query",
    "key_projector": "synthesizer.key",
    "value_projector": "value",
    "output_projector": "attention_output",
}


@register(SynthesizerBackbone)
@register(SynthesizerSeq2SeqBackbone)
def _own(backbone, clone):
    for block in holders(backbone):
        check_compares(block.attention)
    config = backbone.get_config()
    for name in ("max_sequence_length", "max_decoder_length"):
        if name in config:
            config[name] = shortest(config[name], clone.max_length)
    made = type(backbone).from_config(config)
    return made, [(backbone, made)]


def _task(task, clone):
    """A task with the embedding as its output layer."""
    preprocessor = shortened(task.preprocessor, clone.max_length)
    cls = _TASKS[type(task)]
    made = cls(clone(task.backbone), preprocessor=preprocessor)
    keep_sampler(task, made)
    return made


_TASKS = {
    keras_hub.models.GPT2CausalLM: models.SynthesizerCausalLM,
    keras_hub.models.T5Seq2SeqLM: models.SynthesizerSeq2SeqLM,
}
for _class in _TASKS:
    register(_class, _task)


@register(keras_hub.models.GPT2Backbone)
def _gpt2(backbone, clone):
    made = SynthesizerBackbone(
        **{name: getattr(backbone, name) for name in _SIZES},
        max_sequence_length=shortest(
            backbone.max_sequence_length, clone.max_length
        ),
        activation=keras.saving.get_registered_object(
            "keras_hub>gelu_approximate"
        ),
        layer_norm_epsilon=1e-5,
        causal=True,
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
    if clone.max_length is None:
        raise ValueError(
            "The model accepts sequences of any length. Specify how long they "
            "may be, as in max_length=512. "
            "Received: max_length=None"
        )
    tied = backbone.tie_embedding_weights
    made = SynthesizerSeq2SeqBackbone(
        **{name: getattr(backbone, name) for name in _SIZES},
        max_sequence_length=clone.max_length,
        key_dim=backbone.key_value_dim,
        activation=backbone.activation,
        use_gated_activation=backbone.use_gated_activation,
        layer_norm_epsilon=backbone.layer_norm_epsilon,
        normalization="rms_normalization",
        positions="t5_relative",
        attention_use_bias=False,
        feed_forward_use_bias=False,
        feed_forward_dropout=backbone.dropout,
        scale_output=tied,
        tie_embedding_weights=tied,
        synthesizer="V",
        dtype=backbone.dtype_policy,
        name=backbone.name,
    )
    parts = [(backbone.token_embedding, made.token_embedding)]
    for side, stack in (("encoder", made.encoder), ("decoder", made.decoder)):
        layers = getattr(backbone, f"{side}_transformer_layers")
        last = getattr(backbone, f"{side}_layer_norm")
        parts.append((last, stack.layer_norm))
        table = layers[0].self_attention.relative_attention_bias
        # As an array: JAX would share its memory, which training frees.
        bias = stack.position_bias.table.relative_attention_bias
        bias.assign(ops.convert_to_numpy(table))
        for old, new in zip(layers, stack.blocks, strict=True):
            clone.pair(old, new)
            parts += [
                (getattr(old, theirs), attrgetter(ours)(new))
                for theirs, ours in _T5_BLOCK.items()
                if hasattr(old, theirs)
            ]
            _fill_t5_attention(old.self_attention, new.attention, clone)
            if hasattr(old, "cross_attention"):
                _fill_t5_attention(
                    old.cross_attention, new.cross_attention, clone
                )
    return made, parts


def _fill_t5_attention(old, new, clone):
    """Copies projections; T5 does not divide logits by `sqrt(k)`."""
    clone.pair(old, new)
    for theirs, ours in _T5_ATTENTION.items():
        projector = getattr(old, theirs)
        projection = attrgetter(ours)(new)
        clone.pair(projector, projection)
        value = ops.convert_to_numpy(projector.kernel)
        if theirs == "query_projector":
            value = value * new.key_dim**0.5
        projection.kernel.assign(value.reshape(projection.kernel.shape))
