"""Which trained backbones can be taken over, and where their weights go."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import keras_hub
from keras import ops

from keras_synth._backend.internals import sublayers
from keras_synth.attention import normalizers
from keras_synth.layers import SyntheticAttention
from keras_synth.models import (
    SynthesizerBackbone,
    SynthesizerSeq2SeqBackbone,
)
from keras_synth.surgery.stacks import blocks_of
from keras_synth.synthesizers import DotProductSynthesizer

# What KerasHub's names of layers become here.
_RENAMED = {
    r"^(token_and_position_embedding|embeddings)/": "",
    r"^embeddings_layer_norm/": "layer_norm/",
    r"/self_attention_layer_norm/": "/self_attention_residual/norm/",
    r"/self_attention_layer/": "/self_attention/",
    r"/feedforward_layer_norm/": "/feed_forward_residual/norm/",
    r"/feedforward_intermediate_dense/": "/feed_forward/intermediate/",
    r"/feedforward_output_dense/": "/feed_forward/output/",
}
_OURS = {r"/self_attention/synthesizer/": "/self_attention/"}
# Of T5, whose layers of normalisation have no paths of their own.
_T5_BLOCK = {
    "self_attention_layer_norm.weight": "self_attention_residual/norm/scale",
    "cross_attention_layer_norm.weight": "cross_attention_residual/norm/scale",
    "layer_norm.weight": "feed_forward_residual/norm/scale",
    "input_projector.kernel": "feed_forward/intermediate/kernel",
    "gate_projector.kernel": "feed_forward/gate/kernel",
    "output_projector.kernel": "feed_forward/output/kernel",
}
_T5_ATTENTION = {
    "query_projector": "query",
    "key_projector": "key",
    "value_projector": "value",
    "output_projector": "attention_output",
}
# Of all of KerasHub's encoders and decoders here.
_SIZES = (
    "vocabulary_size",
    "num_layers",
    "num_heads",
    "hidden_dim",
    "intermediate_dim",
    "dropout",
    "max_sequence_length",
)


class Family(NamedTuple):
    """Backbones of one class.

    Fields:
        options: Function from a backbone to the arguments of what is made of
            it, but for the synthesizers.
        weights: Function from a backbone to a dictionary of its weights, by
            their paths in what is made of it; those of V are below
            `self_attention/`.
        made: Class of what is made of it.
    """

    options: Callable[[Any], dict[str, Any]]
    weights: Callable[[Any], dict[str, Any]]
    made: Any = SynthesizerBackbone


# --- options ------------------------------------------------------------------


def _sizes(backbone):
    return {name: getattr(backbone, name) for name in _SIZES}


def _bert(backbone):
    return {
        **_sizes(backbone),
        "num_segments": backbone.num_segments,
        "activation": _approximate_gelu(),
        "layer_norm_epsilon": 1e-12,
        "normalize_first": False,
    }


def _distil_bert(backbone):
    return {
        **_sizes(backbone),
        "activation": "gelu",
        "layer_norm_epsilon": 1e-12,
        "normalize_first": False,
    }


def _roberta(backbone):
    return {
        **_sizes(backbone),
        "activation": "gelu",
        "layer_norm_epsilon": 1e-5,
        "normalize_first": False,
    }


def _gpt2(backbone):
    return {
        **_sizes(backbone),
        "activation": _approximate_gelu(),
        "layer_norm_epsilon": 1e-5,
        "causal": True,
    }


def _t5(backbone):
    tied = backbone.tie_embedding_weights
    return {
        **{name: getattr(backbone, name) for name in _SIZES[:-1]},
        "num_decoder_layers": backbone.num_layers,
        "key_dim": _t5_key_dim(backbone),
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


def _own(backbone):
    for i, block in enumerate(blocks_of(backbone)):
        if not _compares(block.attention):
            raise ValueError(
                "A model to be grafted compares all tokens by dot products, "
                'and has nothing else in its blocks: "V". '
                f"Received: block {i} with {block.synthesizer!r}"
            )
    config = backbone.get_config()
    for name in ("name", "trainable", "dtype"):
        config.pop(name, None)
    return config


def _compares(attention):
    """Whether an attention layer does what MultiHeadAttention does."""
    return (
        type(attention) is SyntheticAttention
        and type(attention.synthesizer) is DotProductSynthesizer
        and attention.pattern is None
        and attention.sliding_window is None
        and not attention.use_gate
        and attention.normalizer == normalizers.SOFTMAX
    )


def _approximate_gelu():
    return keras.saving.get_registered_object("keras_hub>gelu_approximate")


def _t5_key_dim(backbone):
    return backbone.key_value_dim or backbone.hidden_dim // backbone.num_heads


# --- weights ------------------------------------------------------------------


def _renamed(blocks, renamed=None, left_out="(?!)"):
    """Returns a function `weights` that renames paths.

    Args:
        blocks: String, the name of blocks here, without their number.
        renamed: Dictionary from a regular expression to what takes its place.
        left_out: Regular expression of weights that have no place here.
    """
    patterns = {r"^transformer_layer_": f"{blocks}_", **(renamed or _RENAMED)}

    def weights(backbone):
        found = {}
        for weight in backbone.weights:
            path = weight.path
            if re.match(left_out, path):
                continue
            for pattern, place in patterns.items():
                path = re.sub(pattern, place, path)
            found[path] = weight
        return found

    return weights


def _t5_weights(backbone):
    """Weights of T5, whose logits are not divided by `sqrt(k)`."""
    embedding = backbone.token_embedding
    found = {"token_embedding/embeddings": embedding.embeddings}
    if not backbone.tie_embedding_weights:
        found["token_embedding/reverse_embeddings"] = (
            embedding.reverse_embeddings
        )
    scale = _t5_key_dim(backbone) ** 0.5
    for side in ("encoder", "decoder"):
        layers = getattr(backbone, f"{side}_transformer_layers")
        last = getattr(backbone, f"{side}_layer_norm")
        table = layers[0].self_attention.relative_attention_bias
        found[f"{side}_layer_norm/scale"] = last.weight
        found[f"{side}_position_bias/table/relative_attention_bias"] = table
        for i, layer in enumerate(layers):
            for path, weight in _t5_block(layer, scale).items():
                found[f"{side}_layer_{i}/{path}"] = weight
    return found


def _t5_block(layer, scale):
    found = {}
    for theirs, path in _T5_BLOCK.items():
        part, _, name = theirs.partition(".")
        if hasattr(layer, part):
            found[path] = getattr(getattr(layer, part), name)
    for place, inside in (
        ("self_attention", ""),
        ("cross_attention", "synthesizer/"),
    ):
        if not hasattr(layer, place):
            continue
        for theirs, ours in _T5_ATTENTION.items():
            kernel = getattr(getattr(layer, place), theirs).kernel
            if ours == "query":
                kernel = ops.convert_to_numpy(kernel) * scale
            compared = inside if ours in ("query", "key") else ""
            found[f"{place}/{compared}{ours}/kernel"] = kernel
    return found


# ------------------------------------------------------------------------------

FAMILIES = {
    keras_hub.models.BertBackbone: Family(
        _bert, _renamed("encoder_layer", left_out="pooled_dense/")
    ),
    keras_hub.models.DistilBertBackbone: Family(
        _distil_bert, _renamed("encoder_layer")
    ),
    keras_hub.models.RobertaBackbone: Family(
        _roberta, _renamed("encoder_layer")
    ),
    keras_hub.models.GPT2Backbone: Family(_gpt2, _renamed("decoder_layer")),
    keras_hub.models.T5Backbone: Family(
        _t5, _t5_weights, SynthesizerSeq2SeqBackbone
    ),
    SynthesizerBackbone: Family(_own, _renamed("", _OURS)),
    SynthesizerSeq2SeqBackbone: Family(
        _own, _renamed("", _OURS), SynthesizerSeq2SeqBackbone
    ),
}


def family(backbone: Any) -> Family:
    """Returns the `Family` of a backbone.

    Args:
        backbone: What may be a backbone.

    Raises:
        ValueError: If it is none of those known, quantized or adapted.
    """
    found = FAMILIES.get(type(backbone))
    if found is None:
        known = ", ".join(cls.__name__ for cls in FAMILIES)
        raise ValueError(
            f"Only backbones of these classes can be grafted: {known}. "
            f"Received: model of {type(backbone).__name__}"
        )
    check_plain(backbone, "graft it")
    return found


def check_plain(model: Any, verb: str) -> None:
    """Raises if a model is quantized or has LoRA.

    Args:
        model: A Keras model.
        verb: String, what is to be done with it.
    """
    layers = (model, *sublayers(model))
    if any(getattr(layer, "quantization_mode", None) for layer in layers):
        raise ValueError(
            f"A quantized model has no weights to go on with: {verb} before "
            f"`quantize`. Received: {model.name!r}, quantized"
        )
    if any("lora" in weight.name for weight in model.weights):
        raise ValueError(
            f"A model with LoRA has weights in two parts: {verb} before "
            "`enable_lora`, or save and load it with merged weights. "
            f"Received: {model.name!r} with LoRA"
        )
