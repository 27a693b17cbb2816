"""Replacements of layers with attention: the table of `surgery`."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import keras
import keras_hub

from keras_synth._backend.internals import sublayers
from keras_synth.analysis.capturing import KERAS
from keras_synth.attention import normalizers
from keras_synth.layers import (
    SynthesizerDecoder,
    SynthesizerEncoder,
    SyntheticAttention,
)
from keras_synth.mixers import Mixer
from keras_synth.surgery.copying import Copy, Pairs, is_graph
from keras_synth.synthesizers import DotProductSynthesizer

ATTENTION = *KERAS, SyntheticAttention
# Decoding with caches: KerasHub's layers and ours have different caches.
_DECODERS = keras_hub.models.CausalLM, keras_hub.models.Seq2SeqLM

Convert = Callable[[Any, Copy], Any]
CONVERSIONS: dict[type, Convert] = {}


def register(cls: type, convert: Convert | None = None) -> Any:
    """Registers a replacement of a layer class for `graft` and `synthesize`.

    `surgery` supports Keras' `MultiHeadAttention` and `GroupQueryAttention`,
    KerasHub's `TransformerEncoder`, `TransformerDecoder` and the encoders of
    its ViT and CLIP. Register a function for a custom layer that contains
    attention:

    `convert(layer, clone)` returns a layer with the same outputs and `"V"`
    instead of attention: a layer of this package, or a Sequential or
    functional model of such layers and Keras' own. It may also return a pair:
    this layer, and a list of pairs (part of the layer, part of the new one)
    whose weights are copied, in the same order. `clone(part)` returns an
    unchanged copy of a layer.

    Args:
        cls: Class of layers. Register subclasses separately.
        convert: The function. If omitted, `register` is a decorator.

    Returns:
        The function.

    Example:

    >>> @keras.saving.register_keras_serializable("example")
    ... class Block(keras.layers.Layer):
    ...     def build(self, shape):
    ...         self.attention = keras.layers.MultiHeadAttention(2, 4)
    ...         self.attention.build(shape, shape)
    ...         self.norm = keras.layers.LayerNormalization()
    ...         self.norm.build(shape)
    ...     def call(self, x):
    ...         return self.norm(x + self.attention(x, x))
    >>> @keras_synth.surgery.register(Block)
    ... def convert_block(block, clone):
    ...     x = keras.Input(block.get_build_config()["input_shape"][1:])
    ...     y = clone(block.attention)(x, x)
    ...     y = clone(block.norm)(keras.layers.Add()([x, y]))
    ...     return keras.Model(x, y, name=block.name), []
    >>> x = keras.Input((6, 8))
    >>> model = keras.Model(x, Block()(x))
    >>> grafted = keras_synth.surgery.graft(model, "R+V")
    >>> inputs = np.ones((1, 6, 8))
    >>> np.allclose(model.predict(inputs, verbose=0),
    ...             grafted.predict(inputs, verbose=0), atol=1e-5)
    True
    """
    if convert is None:
        return lambda function: register(cls, function)
    CONVERSIONS[cls] = convert
    return convert


def converted(layer: Any, clone: Copy) -> Any:
    """Returns the layer of a row for `Copy`, or `None` to keep the layer."""
    convert = CONVERSIONS.get(type(layer))
    if convert is None:
        _check_known(layer)
        return None
    made = convert(layer, clone)
    new = made[0] if isinstance(made, tuple) else made
    if new is None:
        return None
    if not getattr(new, "built", False):
        raise ValueError(
            f"The result of `convert` for {type(layer).__name__} must be "
            f"built. Received: {new!r}"
        )
    if not is_graph(layer) and new.count_params() != layer.count_params():
        raise ValueError(
            f"The result of `convert` for {type(layer).__name__} must have the "
            f"same weights as the layer. Received: {new!r} with "
            f"{new.count_params()} of {layer.count_params()} parameters for "
            f"{layer.path!r}"
        )
    return made


def _check_known(layer):
    """Raises if a layer that is not in the table has attention inside."""
    name = type(layer).__name__
    if isinstance(layer, _DECODERS) and type(layer.backbone) not in CONVERSIONS:
        raise ValueError(
            f"{name} decodes with the cache of its layers, which surgery does "
            "not support. Pass `model.backbone` for outputs of whole "
            "sequences. "
            f"Received: model of {name}"
        )
    if not isinstance(layer, keras.Layer) or is_graph(layer):
        return  # its layers are checked one by one
    for part in (layer, *sublayers(layer)):
        if isinstance(part, ATTENTION) or type(part) in CONVERSIONS:
            raise ValueError(
                f"{name} contains attention, and its class is not registered. "
                "Register a function, "
                f"`keras_synth.surgery.register({name}, convert)`. Received: "
                f"{part.path!r} in {layer.path!r}"
            )


# --- rows ---------------------------------------------------------------------


# Parts of KerasHub's layers by their names, and the same parts of ours.
_ATTENTION = {
    "query": "synthesizer.query",
    "key": "synthesizer.key",
    "value": "value",
    "gate": "gate",
    "attention_output": "attention_output",
}
_BLOCK = {
    "self_attention_layer_norm": "attention_residual.norm",
    "cross_attention_layer_norm": "cross_residual.norm",
    "feedforward_layer_norm": "feed_forward_residual.norm",
    "feedforward_intermediate_dense": "feed_forward.intermediate",
    "feedforward_output_dense": "feed_forward.output_dense",
}


def _parts(layer):
    return {part.name: part for part in sublayers(layer, recursive=False)}


def _pairs(layer, made, places):
    return [
        (part, attrgetter(places[name])(made))
        for name, part in _parts(layer).items()
        if name in places
    ]


def attention_pairs(layer: Any, made: Any) -> Pairs:
    """Returns pairs of equal parts of Keras' attention layer and ours."""
    return _pairs(layer, made, _ATTENTION)


def block_pairs(layer: Any, made: Any) -> Pairs:
    """Returns pairs of equal parts of KerasHub's block and ours."""
    parts, pairs = _parts(layer), _pairs(layer, made, _BLOCK)
    for name, attention in (
        ("self_attention", "attention"),  # of decoders
        ("self_attention_layer", "attention"),  # of encoders
        ("cross_attention", "cross_attention"),
    ):
        if name in parts:
            pairs += attention_pairs(parts[name], getattr(made, attention))
    return pairs


@register(keras.layers.MultiHeadAttention)
@register(keras.layers.GroupQueryAttention)
def _attention(layer, clone):
    ours = {"num_query_heads": "num_heads", "head_dim": "key_dim"}
    config = {ours.get(k, k): x for k, x in layer.get_config().items()}
    made = SyntheticAttention.from_config({**config, "synthesizer": "V"})
    made.build_from_config(layer.get_build_config())
    return made, attention_pairs(layer, made)


@register(keras_hub.layers.TransformerEncoder)
def _transformer_encoder(layer, clone):
    made = SynthesizerEncoder.from_config(
        {**layer.get_config(), "synthesizer": "V"}
    )
    made.build_from_config(layer.get_build_config())
    return made, block_pairs(layer, made)


@register(keras_hub.layers.TransformerDecoder)
def _transformer_decoder(layer, clone):
    config = {**layer.get_config(), "synthesizer": "V"}
    names = "decoder_sequence_shape", "encoder_sequence_shape"
    shapes = [config.pop(name) for name in names]
    made = SynthesizerDecoder.from_config(config)
    made.build(*shapes)
    return made, block_pairs(layer, made)


@register(keras_hub.layers.MaskedLMHead)
def _masked_lm_head(layer, clone):
    if layer.token_embedding is None:
        return None
    config = {**layer.get_config(), "token_embedding": None}
    made = type(layer).from_config(config)
    made.token_embedding = clone(layer.token_embedding)
    made.build_from_config(layer.get_build_config())
    return made, [(layer, made)]


# --- layers of this package ---------------------------------------------------


@register(SyntheticAttention)
@register(SynthesizerEncoder)
@register(SynthesizerDecoder)
def _own(layer, clone):
    for part in (layer, *sublayers(layer)):
        if isinstance(part, Mixer):
            check_compares(part)


def check_compares(attention: Any) -> None:
    """Raises unless a layer computes what an attention layer of Keras does."""
    if not (
        type(attention) is SyntheticAttention
        and type(attention.synthesizer) is DotProductSynthesizer
        and not attention.synthesizer.rotary
        and attention.synthesizer.num_key_value_heads
        == attention.num_key_value_heads
        and attention.pattern is None
        and attention.normalizer == normalizers.SOFTMAX
    ):
        raise ValueError(
            "Surgery needs a model that compares all tokens by dot products, "
            'with nothing but "V" in its attention layers. '
            f"Received: {attention.path!r} with {type(attention).__name__} of "
            f"{getattr(attention, 'synthesizer', None)!r}"
        )
