"""Templates of a block's mixers: names or configs, never weights."""

import keras

from keras_synth.mixers import Mixer, registry
from keras_synth.synthesizers import Synthesizer

# Descriptions of mixers, by an attribute that is false.
_LACKS = {
    "supports_causal_mask": (
        "has no causal form, which decoders and causal backbones require"
    ),
    "supports_cross_attention": (
        "mixes the tokens of one sequence and does not support cross-attention"
    ),
    "supports_attention_bias": (
        "does not support relative positions, because it has no logits of pairs"
    ),
}


def template(mixer, num_heads, max_length=None, needs=()):
    """Returns a name or config from which a block makes mixers, or raises.

    A check makes no layer and draws no seed. `needs` are attributes of `Mixer`
    that must be true.
    """
    registry.check(mixer, num_heads, max_length)
    made = isinstance(mixer, Mixer)
    check_needs(mixer if made else registry.mixer_class(mixer), needs, mixer)
    return as_config(mixer)


def check_needs(mixer, needs, identifier):
    """Raises if a mixer or its class lacks a needed attribute."""
    cls = mixer if isinstance(mixer, type) else type(mixer)
    for need in needs:
        supported = getattr(mixer, need)
        if need == "supports_cross_attention" and cls is not mixer:
            # A pattern is for the positions of one sequence.
            supported &= getattr(mixer, "pattern", None) is None
        if not supported:
            raise ValueError(
                f"{cls.__name__} {_LACKS[need]}. Use another mixer, such as "
                f'"dot_product". Received: {identifier!r}'
            )


def as_config(mixer):
    """Returns the config of a `Synthesizer` or `Mixer`, or raises.

    Lists become lists of configs. Other values do not change.
    """
    if isinstance(mixer, (list, tuple)):
        return [as_config(one) for one in mixer]
    if not isinstance(mixer, (Synthesizer, Mixer)):
        return mixer
    if mixer.weights:
        raise ValueError(
            "A block makes a new layer, without the weights of this one. Pass "
            "a name, a config or an object that is not built, and set the "
            f"weights of the block afterwards. Received: {mixer!r}"
        )
    return keras.saving.serialize_keras_object(mixer)


def in_dtype(template, policy):
    """Returns a copy of a template in the dtype of its block.

    A name does not change.
    """
    if isinstance(template, str):
        return template
    config = {**template["config"], "dtype": policy}
    if "synthesizers" in config:
        parts = config["synthesizers"]
        config["synthesizers"] = [in_dtype(part, policy) for part in parts]
    if isinstance(config.get("synthesizer"), dict):
        config["synthesizer"] = in_dtype(config["synthesizer"], policy)
    return {**template, "config": config}
