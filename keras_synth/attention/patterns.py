"""Sparse patterns: which positions may see which, combined by `|`.

A pattern is a small immutable value. `allows` is its definition; how it is
computed without a tensor of all pairs is the matter of its `piece`, see
`keras_synth.attention.blocks`.
"""

import dataclasses
import functools
from typing import Any, ClassVar, Self

import keras
import numpy as np
from keras import ops

from keras_synth._backend.checks import check_positive, check_seed
from keras_synth.attention.blocks import Drawn, First, Grid, Neighbours
from keras_synth.types import Identifier, Size, Tensor

# Rows of a block of queries: smaller ones are many small products, larger ones
# read more keys outside of the window.
BLOCK = 64


class Pattern:
    """Which pairs of positions attend: `i` sees `j`.

    Attributes:
        relative: Boolean, whether it depends on `i - j` alone.

    Example:

    >>> from keras_synth.mixers.patterns import GlobalTokens, Window
    >>> pattern = Window(1) | GlobalTokens(1)
    >>> [j for j in range(10) if pattern.allows(5, j)]
    [0, 4, 5, 6]
    """

    relative = False

    @property
    def patterns(self) -> tuple["Pattern", ...]:
        """The patterns that it is the union of: a tuple."""
        return (self,)

    def allows(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Whether rows see columns: booleans.

        Args:
            rows: Integer, or integer NumPy array or tensor: positions of
                queries.
            columns: Likewise, positions of keys, that broadcast with them.
        """
        raise NotImplementedError

    def fitted(self, max_length: int | None) -> "Pattern":
        """Returns the pattern for sequences of up to `max_length` tokens.

        Args:
            max_length: Integer, or `None` if there is no limit.

        Raises:
            ValueError: If it reaches beyond, or needs a limit.
        """
        return self

    def piece(self, length: Size, causal: bool) -> Any:
        """Returns how it is computed, see `keras_synth.attention.blocks`.

        Args:
            length: Integer or scalar tensor, `T`.
            causal: Whether no position sees a later one.

        Returns:
            `(grid, columns)`: a `Grid` of queries, or `None` where any will
            do, and the columns that each group is compared with.
        """
        raise NotImplementedError

    def columns(self, row: Size, length: int) -> Tensor:
        """Positions that one row sees, when none after it is there.

        Args:
            row: Integer or scalar integer tensor.
            length: Integer, tokens that there is room for.

        Returns:
            Integer tensor `(n,)`; among them may be positions that it does not
            see, negative ones, and such beyond the length.
        """
        raise NotImplementedError

    def pairs(self, length: int) -> int:
        """Returns how many pairs of positions it allows, an integer.

        Args:
            length: Integer, `T`.
        """
        columns = np.arange(length)[None]
        found = 0
        for first in range(0, length, BLOCK):
            rows = np.arange(first, min(first + BLOCK, length))[:, None]
            allowed = self.allows(rows, columns)
            shape = np.broadcast_shapes(rows.shape, columns.shape)
            found += int(np.broadcast_to(allowed, shape).sum())
        return found

    def __or__(self, other):
        if not isinstance(other, Pattern):
            return NotImplemented
        return Union((*self.patterns, *other.patterns))

    def get_config(self) -> dict[str, Any]:
        return {
            field.name: getattr(self, field.name)
            # Every pattern is a dataclass but this base.
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        return cls(**config)

    def _check(self, *names):
        for name in names:
            value = check_positive(name, getattr(self, name))
            object.__setattr__(self, name, value)


@keras.saving.register_keras_serializable(package="keras_synth")
@dataclasses.dataclass(frozen=True)
class Window(Pattern):
    """Neighbours: `|i - j| <= size * dilation`, every `dilation`-th of them.

    Args:
        size: Integer, how many tokens are seen on each side.
        dilation: Integer, distance from one of them to the next.

    Example:

    >>> window = keras_synth.mixers.patterns.Window(size=2, dilation=3)
    >>> [j for j in range(20) if window.allows(10, j)]
    [4, 7, 10, 13, 16]
    """

    size: int
    dilation: int = 1

    relative: ClassVar[bool] = True

    def __post_init__(self):
        self._check("size", "dilation")

    def allows(self, rows: Tensor, columns: Tensor) -> Tensor:
        distance = abs(rows - columns)
        near = distance <= self.size * self.dilation
        if self.dilation == 1:
            return near
        return near & (distance % self.dilation == 0)

    def fitted(self, max_length: int | None) -> "Pattern":
        _check_reach("window", self.size * self.dilation, max_length)
        return self

    def piece(self, length: Size, causal: bool) -> Any:
        grid = Grid(length, self.dilation, max(BLOCK, self.size))
        return grid, Neighbours(self.size, 0 if causal else self.size)

    def columns(self, row: Size, length: int) -> Tensor:
        return row - self.dilation * ops.arange(self.size + 1)


@keras.saving.register_keras_serializable(package="keras_synth")
@dataclasses.dataclass(frozen=True)
class Stride(Pattern):
    """Tokens at multiples of a distance: `(i - j) % stride == 0`.

    Args:
        stride: Integer, in tokens.

    Example:

    >>> stride = keras_synth.mixers.patterns.Stride(4)
    >>> [j for j in range(16) if stride.allows(5, j)]
    [1, 5, 9, 13]
    """

    stride: int

    relative: ClassVar[bool] = True

    def __post_init__(self):
        self._check("stride")

    def allows(self, rows: Tensor, columns: Tensor) -> Tensor:
        return (rows - columns) % self.stride == 0

    def fitted(self, max_length: int | None) -> "Pattern":
        _check_reach("stride", self.stride, max_length)
        return self

    def piece(self, length: Size, causal: bool) -> Any:
        return Grid(length, self.stride), Neighbours()

    def columns(self, row: Size, length: int) -> Tensor:
        return row % self.stride + ops.arange(0, length, self.stride)


@keras.saving.register_keras_serializable(package="keras_synth")
@dataclasses.dataclass(frozen=True)
class GlobalTokens(Pattern):
    """The first tokens see all and are seen by all.

    Args:
        number: Integer, how many.

    Example:

    >>> first = keras_synth.mixers.patterns.GlobalTokens(2)
    >>> [j for j in range(6) if first.allows(5, j)]
    [0, 1]
    """

    number: int

    def __post_init__(self):
        self._check("number")

    def allows(self, rows: Tensor, columns: Tensor) -> Tensor:
        return (rows < self.number) | (columns < self.number)

    def fitted(self, max_length: int | None) -> "Pattern":
        _check_reach("number of global tokens", self.number, max_length)
        return self

    def piece(self, length: Size, causal: bool) -> Any:
        """Of their columns; rows that see all are no matter of pieces."""
        return None, First(self.number)

    def columns(self, row: Size, length: int) -> Tensor:
        return ops.arange(self.number)


@keras.saving.register_keras_serializable(package="keras_synth")
@dataclasses.dataclass(frozen=True)
class BlockWindow(Pattern):
    """Neighbouring blocks: each block sees `number` of them, its own amid.

    Args:
        number: Odd integer, blocks that are seen.
        block_size: Integer, in tokens.

    Example:

    >>> window = keras_synth.mixers.patterns.BlockWindow(number=3, block_size=2)
    >>> [j for j in range(12) if window.allows(5, j)]
    [2, 3, 4, 5, 6, 7]
    """

    number: int
    block_size: int

    def __post_init__(self):
        self._check("number", "block_size")
        if self.number % 2 == 0:
            raise ValueError(
                "A window of blocks has as many on each side of a block: its "
                f"number must be odd. Received: number={self.number}"
            )

    def allows(self, rows: Tensor, columns: Tensor) -> Tensor:
        distance = abs(rows // self.block_size - columns // self.block_size)
        return distance <= self.number // 2

    def fitted(self, max_length: int | None) -> "Pattern":
        _check_reach("block size", self.block_size, max_length)
        return self

    def piece(self, length: Size, causal: bool) -> Any:
        before = self.number // 2 * self.block_size
        grid = Grid(length, block=self.block_size, exact=True)
        return grid, Neighbours(before, 0 if causal else before)

    def columns(self, row: Size, length: int) -> Tensor:
        reach = (self.number // 2 + 1) * self.block_size
        return row - ops.arange(reach)


@keras.saving.register_keras_serializable(package="keras_synth")
@dataclasses.dataclass(frozen=True)
class RandomBlocks(Pattern):
    """Each block of rows sees blocks of keys that were drawn by lot.

    They are drawn over the whole of `max_length`, from the seed alone: the
    same ones in training and inference, however long a batch is. A block that
    lies beyond the end of a sequence is seen no more than other padding.

    Args:
        number: Integer, blocks that a block of rows sees.
        block_size: Integer, in tokens.
        seed: Integer.
        max_length: Integer, in tokens; that of the layer by default.
        without: Optional pattern: what it allows to the first token of a block
            is not drawn for that block. Where fewer blocks than `number` are
            left, all of them are seen.

    Example:

    >>> blocks = keras_synth.mixers.patterns.RandomBlocks(
    ...     number=1, block_size=2, seed=0, max_length=12)
    >>> len([j for j in range(12) if blocks.allows(5, j)])
    2
    """

    number: int
    block_size: int
    seed: int
    max_length: int | None = None
    without: Pattern | None = None

    def __post_init__(self):
        self._check("number", "block_size")
        if check_seed("seed", self.seed) is None or self.seed < 0:
            raise ValueError(
                "Random blocks need a seed, an integer from 0, so that a saved "
                f"layer draws the same again. Received: seed={self.seed}"
            )
        object.__setattr__(self, "seed", int(self.seed))
        if isinstance(self.without, dict):
            without = keras.saving.deserialize_keras_object(self.without)
            object.__setattr__(self, "without", without)
        if self.max_length is not None:
            self._check("max_length")
            self._check_length(self.max_length)

    def _check_length(self, max_length):
        blocks = -(-max_length // self.block_size)
        if self.number > blocks and self.without is None:
            raise ValueError(
                f"There are {blocks} blocks of {self.block_size} tokens in "
                f"max_length={max_length}. Draw fewer of them, or make them "
                f"smaller. Received: number={self.number}"
            )

    @functools.cached_property
    def table(self):
        """Blocks seen by each block of rows, `(blocks, n)`; -1 is none."""
        if self.max_length is None:
            raise ValueError(
                "Random blocks are drawn over the longest sequence. Pass "
                "max_length to the pattern, or to the layer. Received: "
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
        if _is_numpy(rows) and _is_numpy(columns):
            seen = self.table[np.clip(of_rows, 0, last)]
            return (seen == np.asarray(of_columns)[..., None]).any(-1)
        of_rows = ops.clip(of_rows, 0, last)
        seen = ops.take(ops.convert_to_tensor(self.table), of_rows, axis=0)
        of_columns = ops.convert_to_tensor(of_columns, "int32")
        return ops.any(seen == of_columns[..., None], axis=-1)

    def fitted(self, max_length: int | None) -> "Pattern":
        if max_length is None and self.max_length is None:
            self.table  # noqa: B018, raises
        if self.max_length is None:
            return dataclasses.replace(self, max_length=max_length)
        if max_length not in (None, self.max_length):
            raise ValueError(
                "Random blocks are drawn over one length: that of the layer. "
                "Leave out the pattern's. Received: max_length="
                f"{max_length}, and {self.max_length} of {self}"
            )
        return self

    def piece(self, length: Size, causal: bool) -> Any:
        grid = Grid(length, block=self.block_size, exact=True)
        return grid, Drawn(self.table)

    def columns(self, row: Size, length: int) -> Tensor:
        table = ops.convert_to_tensor(self.table)
        block = ops.clip(row // self.block_size, 0, len(self.table) - 1)
        first = ops.take(table, block, axis=0) * self.block_size
        within = ops.arange(self.block_size)
        return ops.reshape(first[:, None] + within, (-1,))

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if self.without is not None:
            without = keras.saving.serialize_keras_object(self.without)
            config["without"] = without
        return config


@keras.saving.register_keras_serializable(package="keras_synth")
@dataclasses.dataclass(frozen=True)
class Union(Pattern):
    """What any of its patterns allows. `a | b` makes one.

    Args:
        patterns: Sequence of patterns.

    Example:

    >>> from keras_synth.mixers.patterns import Stride, Window
    >>> union = Window(1) | Stride(5)
    >>> [j for j in range(12) if union.allows(5, j)]
    [0, 4, 5, 6, 10]
    """

    patterns: tuple = ()

    def __post_init__(self):
        patterns = tuple(map(get, self.patterns))
        flat = [part for one in patterns for part in one.patterns]
        if not flat:
            raise ValueError(
                "A union needs at least one pattern. Received: none"
            )
        # What is there twice is computed twice, and counts only the first time.
        object.__setattr__(self, "patterns", tuple(dict.fromkeys(flat)))

    @property
    def relative(self) -> bool:
        return all(pattern.relative for pattern in self.patterns)

    def allows(self, rows: Tensor, columns: Tensor) -> Tensor:
        found = (pattern.allows(rows, columns) for pattern in self.patterns)
        return functools.reduce(lambda a, b: a | b, found)

    def fitted(self, max_length: int | None) -> "Pattern":
        return Union(tuple(p.fitted(max_length) for p in self.patterns))

    def get_config(self) -> dict[str, Any]:
        serialized = map(keras.saving.serialize_keras_object, self.patterns)
        return {"patterns": [*serialized]}


def get(pattern: Identifier) -> Pattern:
    """Returns a pattern: itself, or that of a config.

    Args:
        pattern: `Pattern`, or a config dictionary of one.

    Raises:
        ValueError: If it is neither.
    """
    if isinstance(pattern, dict):
        pattern = keras.saving.deserialize_keras_object(pattern)
    if not isinstance(pattern, Pattern):
        raise ValueError(
            "A pattern must be one of keras_synth.mixers.patterns, such as "
            f"Window(16) | GlobalTokens(1). Received: {pattern!r}"
        )
    return pattern


def _check_reach(name, value, max_length):
    if max_length is not None and value > max_length:
        raise ValueError(
            f"The {name}, {value} tokens, is beyond max_length={max_length}. "
            "Make it smaller, or max_length larger. "
            f"Received: {value} with max_length={max_length}"
        )


def _is_numpy(x):
    return isinstance(x, (int, np.ndarray, np.generic))
