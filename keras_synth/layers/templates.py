"""What a block keeps of a mixer: a name or a config, never weights."""

import keras

from keras_synth.mixers import Mixer, registry
from keras_synth.synthesizers import Synthesizer

# What the models around synthesizers and mixers say that they lack.
_LACKS = {
    "supports_causal_mask": (
        "has no causal form, which decoders and causal backbones need"
    ),
    "supports_cross_attention": (
        "mixes the tokens of one sequence: it cannot be a cross-attention"
    ),
    "supports_attention_bias": (
        "has no logits of pairs, to which relative positions are added"
    ),
}


def template(mixer, num_heads, max_length=None, needs=()):
    """Returns a name or config to make mixers from, each time a new one.

    It is checked without making any: no layer is built, no seed is drawn.

    Args:
        mixer: A name, a `Synthesizer` or `Mixer` without weights, or a config
            of one.
        num_heads: Integer, heads of its block.
        max_length: Integer or `None`, of its block.
        needs: Sequence of attributes of `Mixer` that must be true.

    Raises:
        ValueError: If it is unknown, does not fit, lacks what is needed, or
            has weights.
    """
    registry.check(mixer, num_heads, max_length)
    made = isinstance(mixer, Mixer)
    check_needs(mixer if made else registry.mixer_class(mixer), needs, mixer)
    return as_config(mixer)


def check_needs(mixer, needs, identifier):
    """Raises if a mixer, or all of its class, lack what is needed."""
    cls = mixer if isinstance(mixer, type) else type(mixer)
    for need in needs:
        supported = getattr(mixer, need)
        if need == "supports_cross_attention" and cls is not mixer:
            # A pattern is about the positions of one sequence.
            supported &= getattr(mixer, "pattern", None) is None
        if not supported:
            raise ValueError(
                f"{cls.__name__} {_LACKS[need]}. Take another mixer there, "
                f'such as "dot_product". Received: {identifier!r}'
            )


def as_config(mixer):
    """Returns a config of a `Synthesizer` or `Mixer`; others as they are.

    Lists of them become lists.

    Raises:
        ValueError: If it has weights, which a config does not hold.
    """
    if isinstance(mixer, (list, tuple)):
        return [as_config(one) for one in mixer]
    if not isinstance(mixer, (Synthesizer, Mixer)):
        return mixer
    if mixer.weights:
        raise ValueError(
            "A block makes layers of its own, so the weights of this one would "
            "be lost. Pass a name, a config or an object that is not built "
            "yet, and set the weights of the block's afterwards. "
            f"Received: {mixer!r}"
        )
    return keras.saving.serialize_keras_object(mixer)


def in_dtype(template, policy):
    """Returns a copy of a template in the dtype of its block.

    A name, which has none, stays as it is.
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
