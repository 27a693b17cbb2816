"""The base class of patterns, and unions."""

import dataclasses
import functools
from typing import Any, ClassVar, Self

import keras
import numpy as np

from keras_synth._backend.checks import check_positive
from keras_synth._backend.configs import serialized
from keras_synth.types import Size, Tensor

# Rows of a block of queries. Smaller blocks are many small products; larger
# ones read more keys outside of the window.
BLOCK = 64


class Pattern:
    """Base class: which positions j a position i sees.

    Attributes:
        relative: Boolean, whether the pattern depends only on `i - j`.
        reach: Integer, if the pattern allows exactly `|i - j| <= reach`; or
            `None`.
        sees_itself: Boolean, whether every position sees itself.
        in_tokens: String, the argument that is a number of tokens; or `None`.

    Example:

    >>> from keras_synth.mixers.patterns import GlobalTokens, Window
    >>> pattern = Window(1) | GlobalTokens(1)
    >>> [j for j in range(10) if pattern.allows(5, j)]
    [0, 4, 5, 6]
    """

    relative: ClassVar[bool] = False
    reach: ClassVar[int | None] = None
    sees_itself: ClassVar[bool] = True
    in_tokens: ClassVar[str | None] = None

    @property
    def patterns(self) -> tuple["Pattern", ...]:
        """A tuple of the patterns in the union."""
        return (self,)

    @property
    def extent(self) -> int:
        """Integer, the least `max_length` of sequences."""
        return getattr(self, self.in_tokens) if self.in_tokens else 0

    def allows(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Returns booleans, whether rows see columns.

        Args:
            rows: Integer, or integer NumPy array or tensor: positions of
                queries.
            columns: The same for keys; they broadcast with `rows`.
        """
        raise NotImplementedError

    def fitted(self, max_length: int | None) -> "Pattern":
        """Returns the pattern for sequences of up to `max_length` tokens.

        Args:
            max_length: Integer, or `None` for any length.

        Raises:
            ValueError: If the pattern extends beyond `max_length`, or needs it.
        """
        if max_length is not None and self.extent > max_length:
            raise ValueError(
                f"The pattern extends to {self.extent} tokens, beyond "
                f"max_length={max_length}. Use a smaller pattern or a larger "
                f"max_length. Received: {self}"
            )
        return self

    def cut(self, max_length: int) -> "Pattern":
        """Returns an equal pattern that does not extend beyond `max_length`.

        Args:
            max_length: Integer, the longest sequence, in tokens.
        """
        if self.extent <= max_length:
            return self
        config = self.get_config() | {self.in_tokens: max_length}
        return self.from_config(config)

    def piece(self, length: Size, causal: bool) -> Any:
        """Returns blocks to compute it; see `keras_synth.attention.blocks`.

        If a class lacks this method, attention compares all pairs.

        Args:
            length: Integer or scalar tensor, `T`.
            causal: Whether no position sees a later one.

        Returns:
            `(blocks, columns)`: `QueryBlocks`, or `None` for any blocks, and
            the columns of each group.
        """
        raise NotImplementedError

    def columns(self, row: Size, length: int) -> Tensor:
        """Positions that one row can see, if it is the last.

        Args:
            row: Integer or scalar integer tensor.
            length: Integer, maximum number of tokens.

        Returns:
            Integer tensor `(n,)`. It can contain positions that the row does
            not see, that are negative, or that are beyond the length.
        """
        raise NotImplementedError

    def pairs(self, length: int) -> int:
        """Returns the number of allowed pairs among `length * length`."""
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
        if not dataclasses.is_dataclass(self):
            raise TypeError(
                "To be saved, a pattern must be a frozen dataclass, or define "
                f"`get_config`. Received: {type(self)}"
            )
        return {
            field.name: serialized(field.name, getattr(self, field.name))
            for field in dataclasses.fields(self)
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
class Union(Pattern):
    """Allows all pairs that one of its patterns allows. `a | b` makes one.

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
        patterns = [deserialized(pattern) for pattern in self.patterns]
        for pattern in patterns:
            if not isinstance(pattern, Pattern):
                raise ValueError(
                    "A pattern must be an object such as "
                    "keras_synth.mixers.patterns.Window(16). For names and "
                    "arrays use `keras_synth.mixers.patterns.get`. Received: "
                    f"{pattern!r}"
                )
        flat = [part for one in patterns for part in one.patterns]
        if not flat:
            raise ValueError(
                "A union needs at least one pattern. Received: none"
            )
        # Pairs of several patterns are computed again, but count only once.
        object.__setattr__(self, "patterns", tuple(dict.fromkeys(flat)))

    @property
    def relative(self) -> bool:
        return all(pattern.relative for pattern in self.patterns)

    @property
    def sees_itself(self) -> bool:
        return any(pattern.sees_itself for pattern in self.patterns)

    def allows(self, rows: Tensor, columns: Tensor) -> Tensor:
        found = (pattern.allows(rows, columns) for pattern in self.patterns)
        return functools.reduce(lambda a, b: a | b, found)

    def fitted(self, max_length: int | None) -> "Pattern":
        return Union(tuple(p.fitted(max_length) for p in self.patterns))

    def cut(self, max_length: int) -> "Pattern":
        return Union(tuple(p.cut(max_length) for p in self.patterns))

    def get_config(self) -> dict[str, Any]:
        serialized = map(keras.saving.serialize_keras_object, self.patterns)
        return {"patterns": [*serialized]}


def deserialized(pattern):
    """A pattern from its config; other values do not change."""
    if isinstance(pattern, dict):
        return keras.saving.deserialize_keras_object(pattern)
    return pattern


def is_numpy(x):
    """Whether positions are Python or NumPy numbers, not tensors."""
    return isinstance(x, (int, np.ndarray, np.generic))
