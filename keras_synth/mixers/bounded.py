"""Mixers that choose pairs of tokens by their content."""

from typing import Any

from keras import ops

from keras_synth._backend.checks import check_positive
from keras_synth._backend.tensors import heads_first, pad
from keras_synth.attention import masks
from keras_synth.mixers.last_tokens import as_integers
from keras_synth.mixers.multi_head import MultiHeadMixer

# Options of a weight that is saved but not trained.
FIXED = {"dtype": "float32", "trainable": False}


class BoundedMixer(MultiHeadMixer):
    """Base class of mixers that choose pairs of tokens by their content.

    Subclasses set `_block`, which divides the number of tokens that `_mixed`
    gets, and implement `_mixed`.
    """

    # The choice of visible tokens depends on all of them.
    supports_causal_mask = False
    supports_cross_attention = False
    _block: int

    def __init__(
        self, num_heads: int, key_dim: int, max_length: int, **kwargs: Any
    ) -> None:
        super().__init__(num_heads, key_dim, **kwargs)
        self.max_length = check_positive("max_length", max_length)

    def _mixed(self, training, is_token, *tensors):
        """Returns the context `(B, H, L, v)`.

        `is_token` are integers `(B or 1, L)`, 0 for padding. The tensors are
        queries, unless they are keys, keys and values: `(B, H, L, f)`, zero for
        padding.
        """
        raise NotImplementedError

    def attend(self, queries, keys, values, mask, *, training=None):
        tensors = [keys, values]
        if self.key is not None:
            tensors.insert(0, masks.zero_padding(queries, mask.keys))
        length = ops.shape(keys)[1]
        blocks = (length + self._block - 1) // self._block
        behind = blocks * self._block - length
        is_token = pad(as_integers(mask.keys, keys), [[0, 0], [0, behind]])
        widths = [[0, 0], [0, behind], [0, 0], [0, 0]]
        tensors = [heads_first(pad(x, widths)) for x in tensors]
        context = self._mixed(training, is_token, *tensors)
        return heads_first(context[:, :, :length])


def check_at_most(name, value, default, max_length):
    """Returns an argument in tokens or blocks, or raises if it is too large."""
    if value is None:
        return min(default, max_length)
    value = check_positive(name, value)
    if value > max_length:
        raise ValueError(
            f"`{name}` must be at most `max_length`, the longest sequence in "
            f"tokens. Pass a smaller {name} or a larger max_length. Received: "
            f"{name}={value}, max_length={max_length}"
        )
    return value


def unit(x):
    """Vectors of length 1 in float32; zeros stay zero."""
    x = ops.cast(x, "float32")
    squares = ops.sum(ops.square(x), axis=-1, keepdims=True)
    return x * ops.rsqrt(ops.maximum(squares, 1e-12))


def cut_into_blocks(x, size):
    """`(B, H, L, f) -> (B, H, L / size, size, f)`."""
    batch, heads, _, features = ops.shape(x)
    return ops.reshape(x, (batch, heads, -1, size, features))


def join_blocks(x):
    """`(B, H, n, size, f) -> (B, H, n size, f)`."""
    batch, heads, _, _, features = ops.shape(x)
    return ops.reshape(x, (batch, heads, -1, features))


def take_tokens(x, places):
    """Tokens of `(B, H, T, f)` at places `(B, H, n)`: `(B, H, n, f)`."""
    return ops.take_along_axis(x, places[..., None], axis=2)
