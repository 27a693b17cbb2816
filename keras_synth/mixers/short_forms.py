"""Names for a `SyntheticAttention` with a pattern."""

import random
from typing import Any

from keras_synth._backend.checks import check_positive, check_seed
from keras_synth.attention import patterns
from keras_synth.mixers.synthetic_attention import SyntheticAttention
from keras_synth.types import Identifier


def local(
    window: int, synthesizer: Identifier = "dot_product", **kwargs: Any
) -> SyntheticAttention:
    """Attends to the tokens up to `window` away ("local").

    Token `i` sees token `j` if `|i - j| <= window`, or with a causal mask if
    `0 <= i - j <= window`. Time and memory are O(T window).

    References:
        - [Parmar et al., 2018](https://arxiv.org/abs/1802.05751)
        - [Beltagy et al., 2020](https://arxiv.org/abs/2004.05150)
    """
    kwargs["pattern"] = patterns.Window(check_positive("window", window))
    return SyntheticAttention(synthesizer=synthesizer, **kwargs)


def strided(
    stride: int,
    window: int | None = None,
    synthesizer: Identifier = "dot_product",
    **kwargs: Any,
) -> SyntheticAttention:
    """Attends to neighbours and to every `stride`-th token ("strided").

    Token `i` sees token `j` if `|i - j| <= window` or `(i - j) % stride == 0`;
    `window` defaults to `stride`. With a stride of about `sqrt(T)`, time and
    memory are O(T sqrt(T)).

    References:
        - [Child et al., 2019](https://arxiv.org/abs/1904.10509). The paper has
          only the causal form, and two alternatives to this union.
    """
    window = stride if window is None else check_positive("window", window)
    kwargs["pattern"] = patterns.Stride(stride) | patterns.Window(window)
    return SyntheticAttention(synthesizer=synthesizer, **kwargs)


def big_bird(
    max_length: int,
    block_size: int = 64,
    window_blocks: int = 3,
    global_blocks: int = 2,
    random_blocks: int = 3,
    seed: int | None = None,
    random_seed: int | None = None,
    synthesizer: Identifier = "dot_product",
    **kwargs: Any,
) -> SyntheticAttention:
    """Attends to window, global and random blocks of tokens ("big_bird").

    Each block of `block_size` tokens sees `window_blocks` blocks around itself,
    the first `global_blocks` blocks, which see all blocks, and `random_blocks`
    others. Time and memory are O(T block_size) times the number of visible
    blocks. Random blocks are drawn once, over `max_length`, with `random_seed`:
    by default `seed`, or a new one.

    References:
        - [Zaheer et al., 2020](https://arxiv.org/abs/2007.14062), ITC. Global
          blocks are the first ones, because the last one depends on padding.
    """
    if check_seed("random_seed", random_seed) is None:
        random_seed = check_seed("seed", seed)
    if random_seed is None:
        random_seed = random.randrange(2**31)
    pattern = patterns.BlockWindow(window_blocks, block_size)
    first = check_positive("global_blocks", global_blocks)
    pattern |= patterns.GlobalTokens(first * block_size)
    pattern |= patterns.RandomBlocks(
        random_blocks, block_size, random_seed, without=pattern
    )
    kwargs |= {"max_length": max_length, "seed": seed, "pattern": pattern}
    return SyntheticAttention(synthesizer=synthesizer, **kwargs)
