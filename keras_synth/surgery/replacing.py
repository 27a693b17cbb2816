"""Copies of models with `"V"`, or with other synthesizers."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_synth._backend.checks import check_positive
from keras_synth._backend.internals import set_trainable, sublayers
from keras_synth.layers import SynthesizerDecoder, SyntheticAttention
from keras_synth.mixers import registry
from keras_synth.models.backbones.stacked import StackedBackbone
from keras_synth.surgery import decoders, vision  # noqa: F401 (rows)
from keras_synth.surgery.conversions import ATTENTION, CONVERSIONS, converted
from keras_synth.surgery.copying import Copy, check_model
from keras_synth.surgery.places import holders, max_length_of, static_length
from keras_synth.types import Identifier


class Place(NamedTuple):
    """Self-attention of a model.

    Fields:
        origin: The layer in the original model.
        holder: Block around the attention in the copy, or the attention.
        max_length: Integer, the longest sequence there, or `None`.
    """

    origin: Any
    holder: Any
    max_length: int | None

    @property
    def attention(self) -> Any:
        return getattr(self.holder, "attention", self.holder)


class Exact(NamedTuple):
    """A copy of a model with the same outputs and `"V"` in all places."""

    model: Any
    places: list[Place]


def exact(model: Any, max_length: int | None = None) -> Exact:
    """Returns a copy of a model with layers of this package, and its places."""
    check_model(model, "graft it")
    if not any(type(x) in CONVERSIONS for x in (model, *sublayers(model))):
        raise _nothing_found(model)  # before layers are copied
    known = max_length_of(model)
    if max_length is not None:
        check_positive("max_length", max_length)
        if known is not None and max_length > known:
            raise ValueError(
                f"The model has {known} positions. Use a `max_length` up to "
                "that, or lengthen the result with "
                "`keras_synth.surgery.lengthen`. "
                f"Received: max_length={max_length}"
            )
    copy = Copy(converted, max_length)
    made = copy.of(model)
    origins = {id(new): old for old, new in copy.twins.values()}
    places = []
    for holder in holders(made):
        lengths = static_length(holder), getattr(holder, "max_length", None)
        length = next((x for x in lengths if x), max_length or known)
        places.append(Place(origins[id(holder)], holder, length))
    _check_places(model, made, places)
    return Exact(made, places)


def _check_places(model, made, places):
    reached = {
        id(x)
        for holder in holders(made, cross=True)
        for x in (holder, *sublayers(holder))
    }
    for layer in sublayers(made):
        if isinstance(layer, ATTENTION) and id(layer) not in reached:
            raise ValueError(
                "`convert` must return a layer of this package, or a "
                "Sequential or functional model of such layers. Attention "
                "in other layers cannot be replaced. "
                f"Received: {layer.path!r} inside of another layer"
            )
    if not places:
        raise _nothing_found(model)


def _nothing_found(model):
    return ValueError(
        "No self-attention that can be replaced was found: Keras' "
        "MultiHeadAttention, KerasHub's TransformerEncoder or "
        "TransformerDecoder, and others of `keras_synth.surgery.register`. "
        f"Received: {model!r}"
    )


# --- other synthesizers -------------------------------------------------------


def replaced(
    source: Exact, each: Sequence[Identifier], share_keys: bool = True
) -> Exact:
    """Returns a copy with other synthesizers, before their weights are set.

    Other weights equal the source's, except the projections of attention
    layers with another synthesizer. Their heads can share keys and values only
    if `share_keys`.
    """
    configs = {
        id(place.holder): _config(place, identifier, share_keys)
        for place, identifier in zip(source.places, each, strict=True)
        if identifier != "V"
    }

    def change(layer, copy):
        if isinstance(layer, StackedBackbone):
            return _own_backbone(layer, copy, configs)
        if id(layer) not in configs:
            return None
        made = type(layer).from_config(configs[id(layer)])
        made.build_from_config(layer.get_build_config())
        return made, _parts(layer, made)

    copy = Copy(change)
    model = copy.of(source.model)
    places = [
        place._replace(holder=copy.twins[id(place.holder)][1])
        for place in source.places
    ]
    for old, new in zip(source.places, places, strict=True):
        if id(old.holder) in configs:
            weights = old.attention.weights
            is_trained = any(weight.trainable for weight in weights)
            set_trainable(new.attention, old.attention.trainable and is_trained)
    return Exact(model, places)


def _config(place, identifier, share_keys):
    """The config of a layer with another synthesizer."""
    layer, max_length = place.holder, place.max_length
    config = layer.get_config()
    registry.check(identifier, layer.num_heads, max_length)
    if isinstance(layer, SyntheticAttention) or not registry.is_mixer(
        layer.synthesizer
    ):
        config["synthesizer"] = identifier
        attention = config
    else:  # with options of its attention layer
        template = keras.saving.serialize_keras_object(layer.attention)
        template.pop("build_config", None)
        template["config"] |= {
            "synthesizer": identifier,
            "max_length": max_length,
        }
        config["synthesizer"], attention = template, template["config"]
    if not share_keys:
        attention.pop("num_key_value_heads", None)
    return {**config, "max_length": max_length}


def _parts(old, new):
    """The pairs of parts that do not depend on the synthesizer."""
    if isinstance(old, SyntheticAttention):
        return []
    names = ["attention_residual", "feed_forward", "feed_forward_residual"]
    if isinstance(old, SynthesizerDecoder) and old.cross_attention is not None:
        names += ["cross_attention", "cross_residual"]
    return [(getattr(old, name), getattr(new, name)) for name in names]


def _own_backbone(backbone, copy, configs):
    config = backbone.get_config()
    blocks = holders(backbone)
    each = [
        (configs.get(id(block)) or block.get_config())["synthesizer"]
        for block in blocks
    ]
    first = config["num_layers"]
    config["synthesizer"] = each[:first]
    if "num_decoder_layers" in config:
        config["decoder_synthesizer"] = each[first:]
    made = type(backbone).from_config(config)
    for old, new in zip(blocks, holders(made), strict=True):
        changed = id(old) in configs
        copy.pair(old, new, _parts(old, new) if changed else [(old, new)])
    new_layers = {layer.name: layer for layer in made.layers}
    return made, [
        (old, new_layers[old.name])
        for old in backbone.layers
        if old not in blocks
    ]


def copy_heads(old: Any, new: Any, v: Any, order: Any = None) -> None:
    """Copies the projections of attention, and those of logits to `v`.

    With an array of `order`, heads have this order and separate values. The
    first of them are the heads of `v`, which can be `None`.
    """
    heads: Any = slice(None)
    shared = heads
    if order is not None:
        times = old.num_heads // (old.num_key_value_heads or old.num_heads)
        heads, shared = order, order // times
    _take(old.value, new.value, 1, 0, shared)
    _take(old.attention_output, new.attention_output, 0, None, heads)
    if old.gate is not None:
        _take(old.gate, new.gate, 1, 0, heads)
    if v is not None:
        if order is not None:
            heads, shared = heads[: v.num_heads], shared[: v.num_heads]
        _take(old.synthesizer.query, v.query, 1, 0, heads)
        _take(old.synthesizer.key, v.key, 1, 0, shared)


def _take(old, new, kernel_axis, bias_axis, heads):
    """Copies some heads of a projection and its bias, if that has heads."""
    for name, axis in (("kernel", kernel_axis), ("bias", bias_axis)):
        weight = getattr(old, name)
        if weight is not None:
            value = ops.convert_to_numpy(weight)
            if axis is not None:
                value = value[(slice(None),) * axis + (heads,)]
            getattr(new, name).assign(value)
    if not old.trainable:
        set_trainable(new, False)
