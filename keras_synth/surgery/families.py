"""Which trained backbones can be taken over, and where their weights go."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import keras_hub

from keras_synth.models import SynthesizerBackbone

# What KerasHub's names of layers become here. Blocks are numbered likewise.
_RENAMED = {
    r"^(token_and_position_embedding|embeddings)/": "",
    r"^embeddings_layer_norm/": "layer_norm/",
    r"^transformer_layer_(\d+)/": r"layer_\1/",
    r"/self_attention_layer_norm/": "/self_attention_residual/norm/",
    r"/self_attention_layer/": "/self_attention/",
    r"/feedforward_layer_norm/": "/feed_forward_residual/norm/",
    r"/feedforward_intermediate_dense/": "/feed_forward/intermediate/",
    r"/feedforward_output_dense/": "/feed_forward/output/",
}
_OURS = {
    r"^(encoder|decoder)_layer_(\d+)/": r"layer_\2/",
    r"/self_attention/synthesizer/(query|key)/": r"/self_attention/\1/",
}
# Of all of KerasHub's backbones here.
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
        options: Function from a backbone to the arguments of
            `SynthesizerBackbone`, but for the synthesizer.
        renamed: Dictionary from a regular expression to what takes its place
            in the path of a weight.
        left_out: Regular expression of weights that have no place here.
    """

    options: Callable[[Any], dict[str, Any]]
    renamed: dict[str, str] = _RENAMED
    left_out: str = "(?!)"

    def paths(self, backbone: Any) -> dict[str, Any]:
        """Returns the weights by their paths here, `layer_0/...` of blocks.

        Args:
            backbone: A backbone of the family.
        """
        found = {}
        for weight in backbone.weights:
            path = weight.path
            if re.match(self.left_out, path):
                continue
            for pattern, place in self.renamed.items():
                path = re.sub(pattern, place, path)
            found[path] = weight
        return found


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


def _own(backbone):
    config = backbone.get_config()
    for name in ("name", "trainable", "dtype", "synthesizer"):
        config.pop(name, None)
    return config


def _approximate_gelu():
    return keras.saving.get_registered_object("keras_hub>gelu_approximate")


FAMILIES = {
    keras_hub.models.BertBackbone: Family(_bert, left_out="pooled_dense/"),
    keras_hub.models.DistilBertBackbone: Family(_distil_bert),
    keras_hub.models.RobertaBackbone: Family(_roberta),
    keras_hub.models.GPT2Backbone: Family(_gpt2),
    SynthesizerBackbone: Family(_own, _OURS),
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
        inside = getattr(backbone, "backbone", None)
        hint = " Pass its backbone, `model.backbone`." if inside else ""
        raise ValueError(
            f"Only backbones of these classes can be grafted: {known}.{hint} "
            f"Received: model of {type(backbone).__name__}"
        )
    layers = backbone._flatten_layers()
    if any(getattr(layer, "quantization_mode", None) for layer in layers):
        raise ValueError(
            "A quantized model has no weights to go on with: graft it before "
            f"`quantize`. Received: {backbone.name!r}, quantized"
        )
    if any("lora" in weight.name for weight in backbone.weights):
        raise ValueError(
            "A model with LoRA has weights in two parts: graft it before "
            "`enable_lora`, or save and load it with merged weights. "
            f"Received: {backbone.name!r} with LoRA"
        )
    return found
