"""Big Bird: neighbouring blocks, first blocks, and random blocks."""

import random
from typing import Any

import keras

from keras_synth._backend.checks import check_positive, check_seed
from keras_synth.attention.patterns import (
    BlockWindow,
    GlobalTokens,
    RandomBlocks,
)
from keras_synth.mixers.sparse import PatternMixer


@keras.saving.register_keras_serializable(package="keras_synth")
class BigBirdAttention(PatternMixer):
    """Window, global and random blocks of tokens ("big_bird").

    Tokens are in blocks of `block_size`. Each block sees `window_blocks`
    blocks, its own in the middle; the first `global_blocks` blocks, which see
    all; and `random_blocks` others, drawn at random. Time and memory are
    O(T block_size), times the number of blocks seen.

    This is the paper's internal construction (ITC) but for two things. Its
    global blocks are the first and the last one; here they are the first ones,
    as the last of a batch depends on how far it is padded. And random blocks
    are drawn once, from the seed, over the whole of `max_length`: the same in
    training and inference, for any length of a batch. What lies beyond the
    end of a sequence is padding, so that sequences much shorter than
    `max_length` see fewer random blocks.

    Under a causal mask the later ones of these pairs are left out: a block
    sees those of its random blocks that come before, and global blocks see the
    past only. The paper has no causal form. Decoding is that of
    `SparseAttention`.

    Args:
        num_heads: Integer, `H`.
        key_dim: Integer, features per head of queries and keys, `k`.
        max_length: Integer, the longest sequence in tokens.
        block_size: Integer, in tokens.
        window_blocks: Odd integer, neighbouring blocks seen.
        global_blocks: Integer, first blocks that see all and are seen by all.
        random_blocks: Integer, further blocks seen.
        seed: Optional integer, seed of the random blocks, initial values and
            dropout.
        random_seed: Optional integer, another seed of the random blocks. If
            neither is given one is drawn, and stored in the config.
        **kwargs: Arguments of `MultiHeadMixer`.

    Call arguments: see `MultiHeadMixer`, of one sequence.

    Returns:
        Tensor `(B, T, d)`; with `return_attention_scores` a tuple of it and
        the weights `(B, H, T, T)`.

    Raises:
        ValueError: If a number is no positive integer, `window_blocks` is
            even, the blocks are beyond `max_length`, or a sequence is longer.

    Example:

    >>> mixer = keras_synth.mixers.BigBirdAttention(
    ...     num_heads=4, key_dim=16, max_length=512, block_size=16)
    >>> mixer(keras.random.normal((2, 100, 64))).shape
    (2, 100, 64)

    References:
        - [Zaheer et al., 2020](https://arxiv.org/abs/2007.14062)
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        max_length: int,
        block_size: int = 64,
        window_blocks: int = 3,
        global_blocks: int = 2,
        random_blocks: int = 3,
        seed: int | None = None,
        random_seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, seed=seed, **kwargs)
        self.block_size = check_positive("block_size", block_size)
        self.window_blocks = check_positive("window_blocks", window_blocks)
        self.global_blocks = check_positive("global_blocks", global_blocks)
        self.random_blocks = check_positive("random_blocks", random_blocks)
        random_seed = check_seed("random_seed", random_seed)
        if random_seed is None:
            random_seed = check_seed("seed", seed)
        if random_seed is None:
            random_seed = random.randrange(2**31)
        self.random_seed = random_seed
        near = BlockWindow(self.window_blocks, self.block_size)
        near |= GlobalTokens(self.global_blocks * self.block_size)
        drawn = RandomBlocks(
            self.random_blocks, self.block_size, self.random_seed, without=near
        )
        self._set_pattern(near | drawn, max_length)
