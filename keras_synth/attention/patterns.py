"""Sparse patterns: which positions may see which, combined by `|`.

A pattern is a small immutable value. `allows` is its definition; how it is
computed without a tensor of all pairs is the matter of its `piece`, see
`keras_synth.attention.blocks`.
"""

import ast
import base64
import dataclasses
import functools
import re
from typing import Any, ClassVar, Self

import keras
import numpy as np
from keras import ops

from keras_synth import identifiers
from keras_synth._backend.checks import check_positive, check_seed
from keras_synth._backend.tensors import from_array
from keras_synth.attention.blocks import Drawn, First, Grid, Neighbours
from keras_synth.types import Identifier, Size, Tensor

# Rows of a block of queries: smaller ones are many small products, larger ones
# read more keys outside of the window.
BLOCK = 64


class Pattern:
    """Which pairs of positions attend: `i` sees `j`.

    Attributes:
        relative: Boolean, whether it depends on `i - j` alone.
        reach: Integer, if it allows `|i - j| <= reach` and nothing else; or
            `None`.
        sees_itself: Boolean, whether every position is sure to see itself.
        has_pieces: Boolean, whether it can be computed without a tensor of
            all pairs.

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

    def cut(self, max_length: int) -> "Pattern":
        """Returns one that allows the same, reaching no farther.

        Args:
            max_length: Integer, the longest sequence to come, in tokens.
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

    def visited(self, length: int) -> float:
        """About how many columns a row is compared with.

        Args:
            length: Integer, `T`.
        """
        return length

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

    @property
    def reach(self) -> int | None:
        return self.size if self.dilation == 1 else None

    def allows(self, rows: Tensor, columns: Tensor) -> Tensor:
        distance = abs(rows - columns)
        near = distance <= self.size * self.dilation
        if self.dilation == 1:
            return near
        return near & (distance % self.dilation == 0)

    def fitted(self, max_length: int | None) -> "Pattern":
        _check_reach("window", self.size * self.dilation, max_length)
        return self

    def cut(self, max_length: int) -> "Pattern":
        size = max(1, max_length // self.dilation)
        return dataclasses.replace(self, size=min(self.size, size))

    def piece(self, length: Size, causal: bool) -> Any:
        grid = Grid(length, self.dilation, max(BLOCK, self.size))
        return grid, Neighbours(self.size, 0 if causal else self.size)

    def visited(self, length: int) -> float:
        return max(BLOCK, self.size) + 2 * self.size

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

    def cut(self, max_length: int) -> "Pattern":
        return Stride(min(self.stride, max_length))

    def piece(self, length: Size, causal: bool) -> Any:
        return Grid(length, self.stride), Neighbours()

    def visited(self, length: int) -> float:
        return length / self.stride

    def columns(self, row: Size, length: int) -> Tensor:
        return row % self.stride + ops.arange(0, length, self.stride)


@keras.saving.register_keras_serializable(package="keras_synth")
@dataclasses.dataclass(frozen=True)
class FirstTokens(Pattern):
    """The first tokens are seen by all: attention sinks.

    Args:
        number: Integer, how many.

    Example:

    >>> first = keras_synth.mixers.patterns.FirstTokens(2)
    >>> [j for j in range(6) if first.allows(5, j)]
    [0, 1]

    References:
        - [Xiao et al., 2024](https://arxiv.org/abs/2309.17453)
    """

    number: int

    sees_itself: ClassVar[bool] = False

    def __post_init__(self):
        self._check("number")

    def allows(self, rows: Tensor, columns: Tensor) -> Tensor:
        return (columns < self.number) & (rows >= 0)

    def fitted(self, max_length: int | None) -> "Pattern":
        _check_reach("number of first tokens", self.number, max_length)
        return self

    def cut(self, max_length: int) -> "Pattern":
        return type(self)(min(self.number, max_length))

    def piece(self, length: Size, causal: bool) -> Any:
        return None, First(self.number)

    def visited(self, length: int) -> float:
        return self.number

    def columns(self, row: Size, length: int) -> Tensor:
        return ops.arange(self.number)


@keras.saving.register_keras_serializable(package="keras_synth")
@dataclasses.dataclass(frozen=True)
class GlobalTokens(FirstTokens):
    """The first tokens see all and are seen by all.

    In blocks their columns are computed; rows that see all are no matter of
    blocks.

    Args:
        number: Integer, how many.

    Example:

    >>> first = keras_synth.mixers.patterns.GlobalTokens(2)
    >>> [j for j in range(6) if first.allows(1, j)]
    [0, 1, 2, 3, 4, 5]
    """

    def allows(self, rows: Tensor, columns: Tensor) -> Tensor:
        return (rows < self.number) | (columns < self.number)

    def fitted(self, max_length: int | None) -> "Pattern":
        _check_reach("number of global tokens", self.number, max_length)
        return self


@keras.saving.register_keras_serializable(package="keras_synth")
@dataclasses.dataclass(frozen=True)
class BlockWindow(Pattern):
    """Neighbouring blocks: each sees `number` of them, its own in the middle.

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

    def cut(self, max_length: int) -> "Pattern":
        return BlockWindow(self.number, min(self.block_size, max_length))

    def piece(self, length: Size, causal: bool) -> Any:
        before = self.number // 2 * self.block_size
        grid = Grid(length, block=self.block_size, exact=True)
        return grid, Neighbours(before, 0 if causal else before)

    def visited(self, length: int) -> float:
        return self.number * self.block_size

    def columns(self, row: Size, length: int) -> Tensor:
        reach = (self.number // 2 + 1) * self.block_size
        return row - ops.arange(reach)


@keras.saving.register_keras_serializable(package="keras_synth")
@dataclasses.dataclass(frozen=True)
class RandomBlocks(Pattern):
    """Each block of rows sees random blocks of keys.

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
    seed: int = 0
    max_length: int | None = None
    without: Pattern | None = None

    sees_itself: ClassVar[bool] = False

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
        seen = ops.take(from_array(self.table), of_rows, axis=0)
        of_columns = ops.convert_to_tensor(of_columns, "int32")
        return ops.any(seen == of_columns[..., None], axis=-1)

    def fitted(self, max_length: int | None) -> "Pattern":
        if max_length is None and self.max_length is None:
            self.table  # noqa: B018, raises
        if self.max_length is None:
            return dataclasses.replace(self, max_length=max_length)
        if max_length is not None and max_length > self.max_length:
            raise ValueError(
                "Random blocks are drawn over one length: that of the layer. "
                "Leave out the pattern's. Received: max_length="
                f"{max_length}, and {self.max_length} of {self}"
            )
        return self

    def piece(self, length: Size, causal: bool) -> Any:
        grid = Grid(length, block=self.block_size, exact=True)
        return grid, Drawn(self.table)

    def visited(self, length: int) -> float:
        return self.number * self.block_size

    def columns(self, row: Size, length: int) -> Tensor:
        table = from_array(self.table)
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
@dataclasses.dataclass(frozen=True, eq=False)
class Pairs(Pattern):
    """Pairs that are listed: an array of all of them.

    A layer keeps it as a weight that is not trained, and compares all pairs.

    Args:
        allowed: Boolean array `(N, N)`, row i being what position i sees. No
            sequence may be longer.

    Example:

    >>> odd = keras_synth.mixers.patterns.Pairs(np.eye(4) + np.eye(4)[::-1])
    >>> [j for j in range(4) if odd.allows(1, j)]
    [1, 2]
    """

    allowed: Any

    sees_itself: ClassVar[bool] = False
    has_pieces: ClassVar[bool] = False

    def __post_init__(self):
        allowed = self.allowed
        if isinstance(allowed, str):
            allowed = _unpacked(allowed)
        allowed = np.asarray(allowed)
        if allowed.ndim != 2 or len({*allowed.shape}) != 1 or not allowed.size:
            raise ValueError(
                "A pattern of pairs is a boolean array (N, N), a row for each "
                "query. `attention_mask` takes masks of other shapes. "
                f"Received: an array of shape {allowed.shape}"
            )
        object.__setattr__(self, "allowed", allowed.astype(bool))

    def __eq__(self, other):
        same = isinstance(other, Pairs)
        return same and np.array_equal(self.allowed, other.allowed)

    def __hash__(self):
        return hash(self.allowed.tobytes())

    def allows(self, rows: Tensor, columns: Tensor) -> Tensor:
        last = len(self.allowed) - 1
        if _is_numpy(rows) and _is_numpy(columns):
            rows, columns = np.clip(rows, 0, last), np.clip(columns, 0, last)
            return self.allowed[rows, columns]
        flat = ops.convert_to_tensor(self.allowed.reshape(-1).astype("uint8"))
        rows, columns = (
            ops.clip(ops.convert_to_tensor(x, "int32"), 0, last)
            for x in (rows, columns)
        )
        return ops.take(flat, rows * len(self.allowed) + columns) > 0

    def fitted(self, max_length: int | None) -> "Pattern":
        if max_length is not None and max_length > len(self.allowed):
            raise ValueError(
                f"The pattern lists pairs of {len(self.allowed)} positions. "
                "Pass a larger array, or a smaller max_length. "
                f"Received: max_length={max_length}"
            )
        return self

    def columns(self, row: Size, length: int) -> Tensor:
        return ops.arange(length)

    def get_config(self) -> dict[str, Any]:
        return {"allowed": _packed(self.allowed)}


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


# Names, their classes, and what arguments are called in brackets.
_NAMES = {
    "local": (Window, {"window": "size"}),
    "first": (FirstTokens, {"tokens": "number"}),
    "global": (GlobalTokens, {"tokens": "number"}),
    "stride": (Stride, {}),
    "blocks": (BlockWindow, {}),
    "random": (RandomBlocks, {}),
}
_EXPECTED = (
    'names joined by "|": "local(window=16)", "local(window=16, dilation=2)", '
    '"first(tokens=1)", "global(tokens=1)", "stride(stride=16)", '
    '"blocks(number=3, block_size=64)", '
    '"random(number=3, block_size=64, seed=0)"'
)


def get(pattern: Identifier) -> Pattern:
    """Returns a pattern.

    Args:
        pattern: `Pattern`; names such as `"local(window=16) |
            global(tokens=2)"`; a boolean array `(N, N)`; or a config.

    Raises:
        ValueError: If it is none of them.

    Example:

    >>> keras_synth.mixers.patterns.get("local(window=2) | stride(stride=8)")
    Union(patterns=(Window(size=2, dilation=1), Stride(stride=8)))
    """
    if isinstance(pattern, dict):
        pattern = keras.saving.deserialize_keras_object(pattern)
    if isinstance(pattern, str):
        return _named(pattern)
    if len(getattr(pattern, "shape", ())) == 2:
        return Pairs(ops.convert_to_numpy(pattern))
    if not isinstance(pattern, Pattern):
        raise ValueError(
            "A pattern must be one of keras_synth.mixers.patterns, such as "
            "Window(16) | GlobalTokens(1), a boolean array (N, N), or "
            f"{_EXPECTED}. Received: {pattern!r}"
        )
    return pattern


def _named(identifier):
    # A word that Python keeps for itself.
    text = re.sub(r"\bglobal\b(?=\s*\()", "global_", identifier)
    parts = []
    for term in identifiers.read(text, _EXPECTED, ast.BitOr):
        name = term.name.lower().rstrip("_")
        if name not in _NAMES or term.parts or term.heads is not None:
            raise ValueError(
                f"A pattern must be of {_EXPECTED}."
                f"{identifiers.did_you_mean(name, _NAMES)} "
                f"Received: {identifier!r}"
            )
        parts.append(_made(name, term.options, identifier))
    return parts[0] if len(parts) == 1 else Union(tuple(parts))


def _made(name, options, identifier):
    cls, arguments = _NAMES[name]
    fields = {field.name: field for field in dataclasses.fields(cls)}
    known = {k: k for k in fields if k not in {*arguments.values()}}
    known = {**arguments, **known}
    needed = {
        k
        for k, field in known.items()
        if fields[field].default is dataclasses.MISSING
    }
    if not needed <= {*options} <= {*known}:
        raise ValueError(
            f"The pattern {name!r} has the options {[*known]}, of which it "
            f"needs {sorted(needed)}. Received: {[*options]} in {identifier!r}"
        )
    return cls(**{known[k]: value for k, value in options.items()})


def _packed(allowed):
    """A square of booleans as text, eight to a byte."""
    data = base64.b85encode(np.packbits(allowed).tobytes()).decode()
    return f"{len(allowed)}:{data}"


def _unpacked(text):
    size, _, data = text.partition(":")
    bits = np.frombuffer(base64.b85decode(data), "uint8")
    size = int(size)
    return np.unpackbits(bits, count=size * size).reshape(size, size)


def _check_reach(name, value, max_length):
    if max_length is not None and value > max_length:
        raise ValueError(
            f"The {name}, {value} tokens, is beyond max_length={max_length}. "
            "Make it smaller, or max_length larger. "
            f"Received: {value} with max_length={max_length}"
        )


def _is_numpy(x):
    return isinstance(x, (int, np.ndarray, np.generic))
