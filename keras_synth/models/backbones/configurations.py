"""Published configurations, for any synthesizer."""

from typing import Any

from keras_synth.mixers.registry import is_mixer
from keras_synth.synthesizers.registry import tree
from keras_synth.types import Identifier

# The authors' released T5 layers for names in the paper.
_RELEASED = {
    ("dense",): "dense(shared_heads=True)",
    ("dense", "dot_product"): (
        "mixture(dense(shared_heads=True) + dot_product, share_queries=True)"
    ),
}


_T5 = {
    "vocabulary_size": 32_128,
    "max_sequence_length": 512,
    "cross_key_dim": 64,
    "layer_norm_epsilon": 1e-6,
    "normalization": "rms_normalization",
    "attention_use_bias": False,
    "feed_forward_use_bias": False,
    "feed_forward_dropout": 0.1,
    "scale_output": True,
}
_CONFIGS: dict[str, dict[str, Any]] = {
    "transformer_base": {
        "vocabulary_size": 32_768,
        "num_layers": 6,
        "num_heads": 8,
        "hidden_dim": 512,
        "intermediate_dim": 2048,
        "max_sequence_length": 256,
        "attention_use_bias": False,
    },
    "t5_base": {
        **_T5,
        "num_layers": 12,
        "num_heads": 12,
        "hidden_dim": 768,
        "intermediate_dim": 3072,
    },
    "t5_small": {
        **_T5,
        "num_layers": 6,
        "num_heads": 8,
        "hidden_dim": 512,
        "intermediate_dim": 2048,
    },
    "t5_tiny": {
        **_T5,
        "vocabulary_size": 8_000,
        "num_layers": 3,
        "num_heads": 4,
        "hidden_dim": 256,
        "intermediate_dim": 512,
        "max_sequence_length": 128,
    },
    "bert_base": {
        "vocabulary_size": 30_522,
        "num_layers": 12,
        "num_heads": 12,
        "hidden_dim": 768,
        "intermediate_dim": 3072,
        "max_sequence_length": 512,
        "num_segments": 2,
        "activation": "gelu",
        "layer_norm_epsilon": 1e-12,
        "normalize_first": False,
        "positions": "learned",
    },
}


def config(
    name: str, synthesizer: Identifier = "V", **changes: Any
) -> dict[str, Any]:
    """Returns the arguments of a backbone of a published size.

    - `"bert_base"`: BERT base, uncased, for `SynthesizerBackbone`: 12 blocks,
      width 768.
    - `"transformer_base"`: the translation model of the paper, for
      `SynthesizerSeq2SeqBackbone`. It is Vaswani et al.'s base model as in
      Tensor2Tensor: 6 + 6 blocks, width 512, at most 256 tokens.
    - `"t5_base"`, `"t5_small"`: T5 1.0, also for `SynthesizerSeq2SeqBackbone`:
      12 + 12 blocks of width 768, and 6 + 6 blocks of width 512.
    - `"t5_tiny"`: a T5 for CPUs, not published: 3 + 3 blocks, width 256, 8,000
      tokens, at most 128 tokens in a text.

    With `"V"`, T5 has a table of relative positions for each stack. All other
    synthesizers are as in the authors' released code. They have no relative
    positions, and in `"t5_base"` they have 8 heads of 128 instead of 12 heads
    of 64. With `"D"` all heads share the second matrix, and with `"D+V"` the
    parts share the queries. Names with options do not change.

    Training differs from T5 in one way: initial query kernels are sqrt(k) times
    as large, because logits are divided by it here.

    Args:
        name: String, one of the names above.
        synthesizer: Synthesizer or mixer of the self-attention; see
            `keras_synth.mixers.get`.
        **changes: Arguments of the backbone to override.

    Returns:
        Dictionary of keyword arguments.

    Raises:
        ValueError: If the name is unknown.

    Example:

    >>> config = keras_synth.models.config("t5_base", "R", vocabulary_size=8000)
    >>> config["num_heads"], config["key_dim"], config["positions"]
    (8, 128, None)

    References:
        - [Tay et al., 2021](https://arxiv.org/abs/2005.00743), Tables 2 and 4
        - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), Table 3
        - [Raffel et al., 2020](https://arxiv.org/abs/1910.10683)
        - [Devlin et al., 2019](https://arxiv.org/abs/1810.04805)
    """
    if name not in _CONFIGS:
        raise ValueError(
            f"`name` must be one of {', '.join(_CONFIGS)}. "
            f"Received: name={name!r}"
        )
    options = {**_CONFIGS[name], "synthesizer": synthesizer}
    if name.startswith("t5"):
        heads = options["num_heads"]
        options |= {"key_dim": 64, "cross_num_heads": heads}
        options["positions"] = "t5_relative"
        if _names(synthesizer) != ("dot_product",):
            options["positions"] = None
            options["synthesizer"] = _RELEASED.get(
                _names(synthesizer), synthesizer
            )
            if name == "t5_base":
                options |= {"num_heads": 8, "key_dim": 128}
        if "dropout" in changes:
            options["feed_forward_dropout"] = changes["dropout"]
    return options | changes


def _names(synthesizer):
    """Sorted full names of a sum's parts, empty if one has options."""
    if not isinstance(synthesizer, str) or is_mixer(synthesizer):
        return ()
    term = tree(synthesizer)
    parts = term.parts if term.name == "mixture" else (term,)
    if term.options or any(part.options or part.parts for part in parts):
        return ()
    return tuple(sorted(part.name for part in parts))
