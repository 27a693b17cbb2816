"""What a sparse pattern is, and the union of several."""

import dataclasses
import functools
from typing import Any, ClassVar, Self

import keras
import numpy as np

from keras_synth._backend.checks import check_positive
from keras_synth.types import Size, Tensor

# Rows of a block of queries: smaller ones are many small products, larger ones
# read more keys outside of the window.
BLOCK = 64


class Pattern:
    """Which pairs of positions attend: `i` sees `j`.

    Attributes:
        relative: Boolean, whether it depends only on `i - j`.
        reach: Integer, if it allows `|i - j| <= reach` and nothing else; or
            `None`.
        sees_itself: Boolean, whether every position is sure to see itself.
        has_pieces: Boolean, whether it can be computed without a tensor of
            all pairs.
        in_tokens: String, its argument that is a number of tokens; or `None`.

    Example:

    >>> from keras_synth.mixers.patterns import GlobalTokens, Window
    >>> pattern = Window(1) | GlobalTokens(1)
    >>> [j for j in range(10) if pattern.allows(5, j)]
    [0, 4, 5, 6]
    """

    relative: ClassVar[bool] = False
    reach: ClassVar[int | None] = None
    sees_itself: ClassVar[bool] = True
    has_pieces: ClassVar[bool] = True
    in_tokens: ClassVar[str | None] = None

    @property
    def patterns(self) -> tuple["Pattern", ...]:
        """The patterns that it is the union of: a tuple."""
        return (self,)

    @property
    def extent(self) -> int:
        """Integer, tokens that a sequence must have room for."""
        return getattr(self, self.in_tokens) if self.in_tokens else 0

    def allows(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Whether rows see columns: booleans.

        Args:
            rows: Integer, or integer NumPy array or tensor: positions of
                queries.
            columns: The same for keys; they broadcast with `rows`.
        """
        raise NotImplementedError

    def fitted(self, max_length: int | None) -> "Pattern":
        """Returns the pattern for sequences of up to `max_length` tokens.

        Args:
            max_length: Integer, or `None` if there is no limit.

        Raises:
            ValueError: If it reaches beyond, or needs a limit.
        """
        if max_length is not None and self.extent > max_length:
            raise ValueError(
                f"The pattern reaches {self.extent} tokens far, beyond "
                f"max_length={max_length}. Make it smaller, or max_length "
                f"larger. Received: {self}"
            )
        return self

    def cut(self, max_length: int) -> "Pattern":
        """Returns one that allows the same, reaching no farther.

        Args:
            max_length: Integer, the longest sequence to come, in tokens.
        """
        if self.extent <= max_length:
            return self
        config = self.get_config() | {self.in_tokens: max_length}
        return self.from_config(config)

    def piece(self, length: Size, causal: bool) -> Any:
        """Returns how it is computed, see `keras_synth.attention.blocks`.

        Args:
            length: Integer or scalar tensor, `T`.
            causal: Whether no position sees a later one.

        Returns:
            `(blocks, columns)`: `QueryBlocks`, or `None` where any will do,
            and the columns that each group is compared with.
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
        """Returns how many of `length * length` pairs it allows."""
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

    def serialized(self) -> Any:
        """Returns its config, with its class."""
        return keras.saving.serialize_keras_object(self)

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
        patterns = [deserialized(pattern) for pattern in self.patterns]
        for pattern in patterns:
            if not isinstance(pattern, Pattern):
                raise ValueError(
                    "A pattern must be one of keras_synth.mixers.patterns, "
                    "such as Window(16); its `get` reads names and arrays. "
                    f"Received: {pattern!r}"
                )
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

    @property
    def reach(self) -> int | None:
        return self.patterns[0].reach if len(self.patterns) == 1 else None

    @property
    def sees_itself(self) -> bool:
        return any(pattern.sees_itself for pattern in self.patterns)

    @property
    def has_pieces(self) -> bool:
        return all(pattern.has_pieces for pattern in self.patterns)

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
    """A pattern from its config; everything else as it is."""
    if isinstance(pattern, dict):
        return keras.saving.deserialize_keras_object(pattern)
    return pattern


def is_numpy(x):
    """Whether positions are numbers of Python or NumPy, not tensors."""
    return isinstance(x, (int, np.ndarray, np.generic))
