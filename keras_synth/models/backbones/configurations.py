"""Published configurations, for any synthesizer."""

from typing import Any

from keras_synth.layers.templates import as_config
from keras_synth.mixers.registry import is_mixer, mixer_class
from keras_synth.models.backbones.seq2seq_backbone import (
    SynthesizerSeq2SeqBackbone,
)
from keras_synth.synthesizers.registry import tree
from keras_synth.types import Identifier

# How the authors' released T5 layers make what the paper calls by these names.
_RELEASED = {
    ("dense",): "dense(shared_heads=True)",
    ("dense", "dot_product"): (
        "mixture(dense(shared_heads=True) + dot_product, share_queries=True)"
    ),
}


def transformer_base(
    synthesizer: Identifier, **changes: Any
) -> SynthesizerSeq2SeqBackbone:
    """The translation model of the paper: Transformer base.

    Vaswani et al.'s base model as in Tensor2Tensor: 6 + 6 blocks, d 512,
    8 heads of 64, feed-forward networks of 2048, no biases in attention,
    sinusoidal positions, at most 256 tokens. The vocabulary, which the paper
    does not state, has 32,768 word pieces for both languages.

    Args:
        synthesizer: Of the self-attention of encoder and decoder.
        **changes: Arguments of `SynthesizerSeq2SeqBackbone` to override.

    Returns:
        `SynthesizerSeq2SeqBackbone`.

    References:
        - [Tay et al., 2021](https://arxiv.org/abs/2005.00743), Table 2
        - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), Table 3
    """
    options = {
        "vocabulary_size": 32_768,
        "num_layers": 6,
        "num_heads": 8,
        "hidden_dim": 512,
        "intermediate_dim": 2048,
        "max_sequence_length": 256,
        "attention_use_bias": False,
        **changes,
    }
    return SynthesizerSeq2SeqBackbone(synthesizer=synthesizer, **options)


def t5_base(synthesizer: Identifier, **changes: Any) -> dict[str, Any]:
    """T5 base with a synthesizer in the place of self-attention.

    12 + 12 blocks, d 768, feed-forward networks of 3072 (ReLU), RMS
    normalisation, no biases, 32,128 tokens shared by both sides and the output
    layer, at most 512 tokens. Cross-attention is T5's, 12 heads of 64.

    `"dot_product"` is T5 itself: 12 heads of 64 and a table of relative
    positions for each stack. All others are as the authors of the paper
    released them: 8 heads of 128 and no relative positions; `"dense"` shares
    its second matrix among heads, and in `"dense + dot_product"` both parts
    share the queries. (Names with options of their own are taken as they are.)

    What differs from T5 in training: query kernels start sqrt(k) times as
    large, since logits are divided by it here; and dropout is not applied
    inside feed-forward networks and after the last normalisation.

    Args:
        synthesizer: Of the self-attention of encoder and decoder, see
            `keras_synth.synthesizers.get`.
        **changes: Arguments of `SynthesizerSeq2SeqBackbone` to override.

    Returns:
        Dictionary of keyword arguments for `SynthesizerSeq2SeqBackbone`.

    Example:

    >>> config = keras_synth.models.t5_base("random", vocabulary_size=8000)
    >>> config["num_heads"], config["key_dim"], config["positions"]
    (8, 128, None)

    References:
        - [Raffel et al., 2020](https://arxiv.org/abs/1910.10683)
        - [Tay et al., 2021](https://arxiv.org/abs/2005.00743), Table 4
    """
    shape = {"num_layers": 12, "hidden_dim": 768, "intermediate_dim": 3072}
    return _t5(synthesizer, 12, (8, 128), {**shape, **changes})


def t5_small(synthesizer: Identifier, **changes: Any) -> dict[str, Any]:
    """T5 small likewise: 6 + 6 blocks, d 512, 8 heads of 64.

    The paper has no small models: synthesizers have T5's heads here.

    Args and result: see `t5_base`.
    """
    shape = {"num_layers": 6, "hidden_dim": 512, "intermediate_dim": 2048}
    return _t5(synthesizer, 8, (8, 64), {**shape, **changes})


def t5_tiny(synthesizer: Identifier, **changes: Any) -> dict[str, Any]:
    """A T5 of some 5 million parameters, for CPUs.

    3 + 3 blocks, d 256, 4 heads of 64, feed-forward networks of 512, 8,000
    tokens, at most 128. No published model has this size.

    Args and result: see `t5_base`.
    """
    shape = {"num_layers": 3, "hidden_dim": 256, "intermediate_dim": 512}
    size = {"vocabulary_size": 8_000, "max_sequence_length": 128}
    return _t5(synthesizer, 4, (4, 64), {**shape, **size, **changes})


def bert_base(synthesizer: Identifier, **changes: Any) -> dict[str, Any]:
    """BERT base with a synthesizer in the place of self-attention.

    12 blocks, d 768, 12 heads of 64, feed-forward networks of 3072 (GELU),
    post-norm, learned positions, two segments, at most 512 tokens. The
    vocabulary is that of the uncased model.

    Args:
        synthesizer: Of the self-attention, see `keras_synth.mixers.get`.
        **changes: Arguments of `SynthesizerBackbone` to override.

    Returns:
        Dictionary of keyword arguments for `SynthesizerBackbone`.

    Example:

    >>> config = keras_synth.models.bert_base("R", num_layers=2)
    >>> config["num_layers"], config["activation"]
    (2, 'gelu')

    References:
        - [Devlin et al., 2019](https://arxiv.org/abs/1810.04805)
    """
    _check(synthesizer)
    return {
        "vocabulary_size": 30_522,
        "num_layers": 12,
        "num_heads": 12,
        "hidden_dim": 768,
        "intermediate_dim": 3072,
        "synthesizer": synthesizer,
        "max_sequence_length": 512,
        "num_segments": 2,
        "activation": "gelu",
        "layer_norm_epsilon": 1e-12,
        "normalize_first": False,
        "positions": "learned",
        **changes,
    }


def _t5(synthesizer, num_heads, others, changes):
    """Arguments of a T5 whose own heads have 64 features.

    `others` are number and features of heads of what is not T5 itself.
    """
    _check(synthesizer)
    names = _names(synthesizer)
    heads, key_dim = others
    positions = None
    if names == ("dot_product",):
        heads, key_dim, positions = num_heads, 64, "t5_relative"
    return {
        "vocabulary_size": 32_128,
        "num_heads": heads,
        "key_dim": key_dim,
        "cross_num_heads": num_heads,
        "cross_key_dim": 64,
        "synthesizer": _RELEASED.get(names, synthesizer),
        "max_sequence_length": 512,
        "layer_norm_epsilon": 1e-6,
        "normalization": "rms_normalization",
        "positions": positions,
        "attention_use_bias": False,
        "feed_forward_use_bias": False,
        "feed_forward_dropout": changes.get("dropout", 0.1),
        "scale_output": True,
        **changes,
    }


def _names(synthesizer):
    """Full names of a sum's parts, sorted; nothing where they have options."""
    if not isinstance(synthesizer, str) or is_mixer(synthesizer):
        return ()
    term = tree(synthesizer)
    parts = term.parts if term.name == "mixture" else (term,)
    if term.options or any(part.options or part.parts for part in parts):
        return ()
    return tuple(sorted(part.name for part in parts))


def _check(synthesizer):
    """Raises if there is none of a name, nor of one in a list of them."""
    for one in synthesizer if isinstance(synthesizer, list) else [synthesizer]:
        if not isinstance(one, int):  # which shares an earlier layer's
            mixer_class(as_config(one))
