"""Windows, strides, and the first tokens of a sequence."""

import dataclasses
from typing import Any, ClassVar

import keras
from keras import ops

from keras_synth._backend.tensors import indices
from keras_synth.attention.blocks import Listed, Neighbours, QueryBlocks
from keras_synth.attention.patterns.pattern import BLOCK, Pattern
from keras_synth.types import Size, Tensor


@keras.saving.register_keras_serializable(package="keras_synth")
@dataclasses.dataclass(frozen=True)
class Window(Pattern):
    """Every `dilation`-th neighbour with `|i - j| <= size * dilation`.

    Args:
        size: Integer, number of visible tokens on each side.
        dilation: Integer, distance between visible tokens.

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

    @property
    def reach(self) -> int | None:
        return self.size if self.dilation == 1 else None

    def allows(self, rows: Tensor, columns: Tensor) -> Tensor:
        distance = abs(rows - columns)
        near = distance <= self.size * self.dilation
        if self.dilation == 1:
            return near
        return near & (distance % self.dilation == 0)

    @property
    def extent(self) -> int:
        return self.size * self.dilation

    def cut(self, max_length: int) -> "Pattern":
        if self.dilation > max_length:  # each token sees only itself
            return Window(1, max_length)
        size = min(self.size, max_length // self.dilation)
        return dataclasses.replace(self, size=size)

    def piece(self, length: Size, causal: bool) -> Any:
        grid = QueryBlocks(length, self.dilation, max(BLOCK, self.size))
        return grid, Neighbours(self.size, 0 if causal else self.size)

    def columns(self, row: Size, length: int) -> Tensor:
        return row - self.dilation * indices(self.size + 1)


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
    in_tokens: ClassVar[str] = "stride"

    def __post_init__(self):
        self._check("stride")

    def allows(self, rows: Tensor, columns: Tensor) -> Tensor:
        return (rows - columns) % self.stride == 0

    def piece(self, length: Size, causal: bool) -> Any:
        return QueryBlocks(length, self.stride), Neighbours()

    def columns(self, row: Size, length: int) -> Tensor:
        return row % self.stride + ops.arange(
            0, length, self.stride, dtype="int32"
        )


@keras.saving.register_keras_serializable(package="keras_synth")
@dataclasses.dataclass(frozen=True)
class FirstTokens(Pattern):
    """All tokens see the first tokens, which are attention sinks.

    Args:
        number: Integer, number of first tokens.

    Example:

    >>> first = keras_synth.mixers.patterns.FirstTokens(2)
    >>> [j for j in range(6) if first.allows(5, j)]
    [0, 1]

    References:
        - [Xiao et al., 2024](https://arxiv.org/abs/2309.17453)
    """

    number: int

    sees_itself: ClassVar[bool] = False
    in_tokens: ClassVar[str] = "number"

    def __post_init__(self):
        self._check("number")

    def allows(self, rows: Tensor, columns: Tensor) -> Tensor:
        return (columns < self.number) & (rows >= 0)

    def piece(self, length: Size, causal: bool) -> Any:
        return None, Listed(self.number, lambda row: self.columns(row, length))

    def columns(self, row: Size, length: int) -> Tensor:
        return indices(self.number)


@keras.saving.register_keras_serializable(package="keras_synth")
@dataclasses.dataclass(frozen=True)
class GlobalTokens(FirstTokens):
    """The first tokens see all tokens, and all tokens see them.

    Args:
        number: Integer, number of first tokens.

    Example:

    >>> first = keras_synth.mixers.patterns.GlobalTokens(2)
    >>> [j for j in range(6) if first.allows(1, j)]
    [0, 1, 2, 3, 4, 5]
    """

    def allows(self, rows: Tensor, columns: Tensor) -> Tensor:
        return (rows < self.number) | (columns < self.number)
