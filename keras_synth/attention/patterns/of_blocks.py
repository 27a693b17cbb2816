"""Patterns of neighbouring and random blocks of tokens."""

import dataclasses
import functools
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_synth._backend.checks import check_seed
from keras_synth._backend.tensors import from_array, indices, take
from keras_synth.attention.blocks import Listed, Neighbours, QueryBlocks
from keras_synth.attention.patterns.pattern import (
    Pattern,
    deserialized,
    is_numpy,
)
from keras_synth.types import Size, Tensor


@keras.saving.register_keras_serializable(package="keras_synth")
@dataclasses.dataclass(frozen=True)
class BlockWindow(Pattern):
    """Neighbouring blocks: each block sees `number` blocks around itself.

    Args:
        number: Odd integer, number of visible blocks.
        block_size: Integer, in tokens.

    Example:

    >>> window = keras_synth.mixers.patterns.BlockWindow(number=3, block_size=2)
    >>> [j for j in range(12) if window.allows(5, j)]
    [2, 3, 4, 5, 6, 7]
    """

    number: int
    block_size: int

    in_tokens: ClassVar[str] = "block_size"

    def __post_init__(self):
        self._check("number", "block_size")
        if self.number % 2 == 0:
            raise ValueError(
                "The number of blocks in a window must be odd, with the same "
                "number on each side of a block. Received: "
                f"number={self.number}"
            )

    def allows(self, rows: Tensor, columns: Tensor) -> Tensor:
        distance = abs(rows // self.block_size - columns // self.block_size)
        return distance <= self.number // 2

    def piece(self, length: Size, causal: bool) -> Any:
        before = self.number // 2 * self.block_size
        grid = QueryBlocks(length, block=self.block_size)
        return grid, Neighbours(before, 0 if causal else before)

    def columns(self, row: Size, length: int) -> Tensor:
        reach = (self.number // 2 + 1) * self.block_size
        return row - indices(reach)


@keras.saving.register_keras_serializable(package="keras_synth")
@dataclasses.dataclass(frozen=True)
class RandomBlocks(Pattern):
    """Each block of rows sees random blocks of keys.

    The blocks are drawn from all of `max_length` by the seed, so that they are
    the same in training and inference and for batches of any length.

    Args:
        number: Integer, number of blocks that a block of rows sees.
        block_size: Integer, in tokens.
        seed: Integer.
        max_length: Integer, in tokens; by default the layer's.
        without: Optional pattern. Blocks that it allows to the first token of a
            block are not drawn for that block. If fewer blocks than `number`
            remain, all of them are visible.

    Example:

    >>> blocks = keras_synth.mixers.patterns.RandomBlocks(
    ...     number=1, block_size=2, seed=0, max_length=12)
    >>> len([j for j in range(12) if blocks.allows(5, j)])
    2
    """

    number: int
    block_size: int
    seed: int = 0
    max_length: int | None = None
    without: Pattern | None = None

    sees_itself: ClassVar[bool] = False

    def __post_init__(self):
        self._check("number", "block_size")
        if check_seed("seed", self.seed) is None or self.seed < 0:
            raise ValueError(
                "Random blocks need a non-negative integer as seed, so that a "
                f"saved layer draws the same blocks. Received: seed={self.seed}"
            )
        object.__setattr__(self, "seed", int(self.seed))
        object.__setattr__(self, "without", deserialized(self.without))
        if self.max_length is not None:
            self._check("max_length")
            self._check_length(self.max_length)

    def _check_length(self, max_length):
        blocks = -(-max_length // self.block_size)
        if self.number > blocks and self.without is None:
            raise ValueError(
                f"max_length={max_length} has {blocks} blocks of "
                f"{self.block_size} tokens. Draw fewer blocks, or make them "
                f"smaller. Received: number={self.number}"
            )

    @functools.cached_property
    def table(self):
        """Blocks that each block of rows sees, `(blocks, n)`, or -1."""
        if self.max_length is None:
            raise ValueError(
                "Random blocks are drawn from the longest sequence. Pass "
                "max_length to the pattern or to the layer. Received: "
                "max_length=None"
            )
        rng = np.random.default_rng(self.seed)
        blocks = -(-self.max_length // self.block_size)
        firsts = np.arange(blocks) * self.block_size
        drawn = np.full((blocks, min(self.number, blocks)), -1, "int32")
        for row in range(blocks):
            order = rng.permutation(blocks)
            if self.without is not None:
                seen = self.without.allows(firsts[row], firsts[order])
                order = order[~np.asarray(seen)]
            order = order[: self.number]
            drawn[row, : len(order)] = order
        return drawn

    def allows(self, rows: Tensor, columns: Tensor) -> Tensor:
        of_rows = rows // self.block_size
        of_columns = columns // self.block_size
        last = len(self.table) - 1
        if is_numpy(rows) and is_numpy(columns):
            seen = self.table[np.clip(of_rows, 0, last)]
            return (seen == np.asarray(of_columns)[..., None]).any(-1)
        of_rows = ops.clip(of_rows, 0, last)
        seen = take(from_array(self.table), of_rows, 0)
        of_columns = ops.convert_to_tensor(of_columns, "int32")
        return ops.any(seen == of_columns[..., None], axis=-1)

    def fitted(self, max_length: int | None) -> "Pattern":
        if max_length is None and self.max_length is None:
            self.table  # noqa: B018, raises
        if self.max_length is None:
            return dataclasses.replace(self, max_length=max_length)
        if max_length is not None and max_length > self.max_length:
            raise ValueError(
                "Random blocks are drawn from the max_length of the layer. "
                f"Leave out the pattern's. Received: max_length={max_length}, "
                f"and {self.max_length} of {self}"
            )
        return self

    def piece(self, length: Size, causal: bool) -> Any:
        grid = QueryBlocks(length, block=self.block_size)
        number = self.table.shape[1] * self.block_size
        return grid, Listed(number, lambda rows: self.columns(rows, length))

    def columns(self, row: Size, length: int) -> Tensor:
        blocks = ops.clip(row // self.block_size, 0, len(self.table) - 1)
        firsts = take(from_array(self.table), blocks, 0)
        firsts = firsts[..., None] * self.block_size
        columns = firsts + indices(self.block_size)
        number = self.table.shape[1] * self.block_size
        return ops.reshape(columns, (*ops.shape(firsts)[:-2], number))
