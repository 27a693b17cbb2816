"""The last tokens and their positions: the state of windows.

A state is a dictionary of `"tokens"`, `(B, n, ...)`, and their `"positions"`,
integers `(B, n)`, or -1 without a token.
"""

from keras import ops

from keras_synth._backend.tensors import indices
from keras_synth.attention import masks


def windows(x, width):
    """The `width` slices of `x`, `(B, T + width - 1, ...)`, of T tokens."""
    return [x[:, t : t - width + 1 or None] for t in range(width)]


def as_integers(mask, x):
    """A padding mask `(B, T)` as 0 and 1, or `(1, T)` of 1 without a mask."""
    # Not all backends slice booleans.
    if mask is None:
        return ops.ones((1, ops.shape(x)[1]), "int32")
    return ops.cast(mask, "int32")


def shapes(number, shape):
    """Returns the shapes of a state of `number` tokens, without the batch.

    If the number is 0, a state has one token, because some operations do not
    support empty tensors.
    """
    number = max(number, 1)
    return {"tokens": (number, *shape), "positions": (number,)}


def without_tokens(state):
    """Returns a state without tokens."""
    sizes = ops.shape(state["tokens"])[:2]
    return {**state, "positions": ops.full(sizes, -1, "int32")}


def _extended(state, tokens, mask):
    """A state with tokens `(B, T, ...)` appended."""
    here = indices(ops.shape(tokens)[1])[None] + mask.start
    positions = ops.broadcast_to(here, ops.shape(tokens)[:2])
    if mask.keys is not None:
        positions = ops.where(mask.keys, positions, -1)
    new = {"tokens": tokens, "positions": positions}
    return {
        name: ops.concatenate([x, ops.cast(new[name], x.dtype)], axis=1)
        for name, x in state.items()
    }


def _latest(state, number):
    """A state of the last tokens of another."""
    positions, at = ops.top_k(state["positions"], max(number, 1))
    return {"tokens": _taken(state["tokens"], at), "positions": positions}


def joined(state, x, mask, number):
    """Appends tokens to the `number` of tokens just before them.

    `x` is `(B, T, ...)`, zero for padding. The `AttentionMask` has their
    padding and first position. Returns the tokens `(B, number + T, ...)`,
    integers `(B, number + T)`, 0 without a token, and the next state.
    """
    is_token = as_integers(mask.keys, x)
    is_token = ops.broadcast_to(is_token, ops.shape(x)[:2])
    after = _latest(_extended(state, x, mask), number)
    if number == 0:
        return x, is_token, after
    wanted = ops.arange(-number, 0, dtype="int32") + mask.start
    same = ops.equal(state["positions"][:, None], wanted[:, None])
    same = ops.cast(ops.logical_and(same, wanted[:, None] >= 0), "int32")
    before = ops.amax(same, axis=2)  # (B, number)
    tokens = _taken(state["tokens"], ops.argmax(same, axis=2))
    tokens = masks.zero_padding(tokens, before > 0)
    return (
        ops.concatenate([tokens, x], axis=1),
        ops.concatenate([before, is_token], axis=1),
        after,
    )


def _taken(tokens, at):
    """Tokens `(B, n, ...)` at places `(B, m)`."""
    at = ops.cast(at, "int32")[(...,) + (None,) * (len(tokens.shape) - 2)]
    return ops.take_along_axis(tokens, at, axis=1)
