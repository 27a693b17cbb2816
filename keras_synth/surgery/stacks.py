"""The stacks of blocks of a backbone, and what their attention does."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_synth.models import SynthesizerSeq2SeqBackbone
from keras_synth.models.backbones.stack import Stack
from keras_synth.types import Tensor


def stacks_of(backbone: Any) -> dict[str, Stack]:
    """Returns the stacks of a backbone, encoder first.

    Args:
        backbone: `SynthesizerBackbone` or `SynthesizerSeq2SeqBackbone`.

    Returns:
        Dictionary from the argument of the backbone that names a stack's
        synthesizers to the stack.
    """
    if isinstance(backbone, SynthesizerSeq2SeqBackbone):
        return {
            "synthesizer": backbone.encoder,
            "decoder_synthesizer": backbone.decoder,
        }
    return {"synthesizer": backbone.stack}


def blocks_of(backbone: Any) -> list[Any]:
    """Returns all blocks of a backbone, those of an encoder first."""
    return [
        block
        for stack in stacks_of(backbone).values()
        for block in stack.blocks
    ]


def by_stack(options: dict[str, Any], each: list[Any]) -> dict[str, list[Any]]:
    """Returns what there is for each block as arguments of a backbone.

    Args:
        options: Dictionary, other arguments of the backbone.
        each: List with an entry for each block, those of an encoder first.
    """
    first = options["num_layers"]
    if "num_decoder_layers" not in options:
        return {"synthesizer": each}
    return {"synthesizer": each[:first], "decoder_synthesizer": each[first:]}


def number_of_blocks(options: dict[str, Any]) -> int:
    """Returns how many blocks a backbone of these arguments has."""
    return options["num_layers"] + options.get("num_decoder_layers", 0)


class Seen(NamedTuple):
    """What the attention of a block sees of a batch, and what it does.

    Fields:
        x: Tensor `(B, T, d)`, its input.
        weights: Tensor `(B, H, T, T)`.
        real: Boolean array `(B, T)`, False for padding.
        bias: Tensor `(1, H, T, T)`, added to its logits, or `None`.
        causal: Whether no token attends to later ones.
    """

    x: Tensor
    weights: Tensor
    real: np.ndarray
    bias: Tensor
    causal: bool


def watch(backbone: Any, inputs: dict[str, Any]) -> Iterator[Seen]:
    """Yields a `Seen` of each block of a backbone, one by one.

    Args:
        backbone: As for `stacks_of`.
        inputs: Dictionary of arrays, a batch of its inputs.
    """
    encoded: dict[str, Any] = {}
    sides = ("encoder_", "decoder_")
    both = isinstance(backbone, SynthesizerSeq2SeqBackbone)
    for side, stack in zip(
        sides if both else ("",), stacks_of(backbone).values(), strict=True
    ):
        mask = ops.convert_to_tensor(inputs[f"{side}padding_mask"])
        segments = {
            name: ops.convert_to_tensor(inputs[name])
            for name in ("segment_ids",)
            if stack.segment_embedding is not None
        }
        ids = ops.convert_to_tensor(inputs[f"{side}token_ids"])
        x = stack.embed(ids, **segments)
        bias = None if stack.position_bias is None else stack.position_bias(x)
        prefix = "decoder_" if stack.decoder else ""
        given = {f"{prefix}padding_mask": mask}
        given |= encoded if stack.decoder else {}
        if bias is not None:
            given[f"{prefix}attention_bias"] = bias
        real = ops.convert_to_numpy(mask).astype(bool)
        for block in stack.blocks:
            before = block.attention_residual.before(x)
            x, weights, *_ = block(x, return_attention_scores=True, **given)
            yield Seen(before, weights, real, bias, stack.decoder)
        if both:
            x = stack.layer_norm(x) if stack.normalize_first else x
            encoded = {"encoder_sequence": x, "encoder_padding_mask": mask}
