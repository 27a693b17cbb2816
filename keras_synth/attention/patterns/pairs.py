"""A pattern as an array of pairs."""

import base64
import dataclasses
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_synth._backend.tensors import take
from keras_synth.attention.patterns.pattern import Pattern, is_numpy
from keras_synth.types import Tensor


@keras.saving.register_keras_serializable(package="keras_synth")
@dataclasses.dataclass(frozen=True, eq=False)
class Pairs(Pattern):
    """A boolean array of all pairs.

    The array becomes a weight that is not trained. The layer compares all
    pairs.

    Args:
        allowed: Boolean array `(N, N)`; row i is for position i of the query.
            Sequences have at most N tokens.

    Example:

    >>> odd = keras_synth.mixers.patterns.Pairs(np.eye(4) + np.eye(4)[::-1])
    >>> [j for j in range(4) if odd.allows(1, j)]
    [1, 2]
    """

    allowed: Any

    sees_itself: ClassVar[bool] = False

    def __post_init__(self):
        allowed = self.allowed
        if isinstance(allowed, str):
            size, _, data = allowed.partition(":")
            bits = np.frombuffer(base64.b85decode(data), "uint8")
            allowed = np.unpackbits(bits, count=int(size) ** 2)
            allowed = allowed.reshape(int(size), int(size))
        allowed = np.asarray(allowed)
        if allowed.ndim != 2 or len({*allowed.shape}) != 1 or not allowed.size:
            raise ValueError(
                "A pattern of pairs must be a boolean array (N, N), with a row "
                "for each query. For masks of other shapes use "
                f"`attention_mask`. Received: an array of shape {allowed.shape}"
            )
        object.__setattr__(self, "allowed", allowed.astype(bool))

    def __eq__(self, other):
        same = isinstance(other, Pairs)
        return same and np.array_equal(self.allowed, other.allowed)

    def __hash__(self):
        return hash(self.allowed.tobytes())

    def allows(self, rows: Tensor, columns: Tensor) -> Tensor:
        last = len(self.allowed) - 1
        if is_numpy(rows) and is_numpy(columns):
            rows, columns = np.clip(rows, 0, last), np.clip(columns, 0, last)
            return self.allowed[rows, columns]
        flat = ops.convert_to_tensor(self.allowed.reshape(-1).astype("uint8"))
        rows, columns = (
            ops.clip(ops.convert_to_tensor(x, "int32"), 0, last)
            for x in (rows, columns)
        )
        return take(flat, rows * len(self.allowed) + columns, 0) > 0

    def fitted(self, max_length: int | None) -> "Pattern":
        if max_length is not None and max_length > len(self.allowed):
            raise ValueError(
                f"The pattern has pairs of {len(self.allowed)} positions. Pass "
                "a larger array or a smaller max_length. Received: "
                f"max_length={max_length}"
            )
        return self

    def get_config(self) -> dict[str, Any]:
        # The size, and the booleans as text, eight to a byte.
        data = base64.b85encode(np.packbits(self.allowed).tobytes()).decode()
        return {"allowed": f"{len(self.allowed)}:{data}"}
