"""Logits of a token's neighbours, predicted from the token."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import check_positive
from keras_synth._backend.configs import config_of
from keras_synth._backend.distributions import MODEL
from keras_synth._backend.tensors import indices, pad
from keras_synth.attention.logits import Logits
from keras_synth.synthesizers.dense import TokenSynthesizer
from keras_synth.types import Identifier


@keras.saving.register_keras_serializable(package="keras_synth")
class LocalDenseSynthesizer(TokenSynthesizer):
    """Predicts the logits of a token's neighbours ("local_dense").

    `S[i, i + o] = relu(x_i W1 + b1) . W2[o] + b2[o]` for offsets o from
    `-window` to `window`: Dense, with offsets instead of positions. Tokens
    farther away are not visible, not even in a mixture with other parts.

    Read as attention, token j has the constant key of the residue
    `j mod (2 window + 1)`, which is different for all neighbours of i, and the
    logits of i are in that order. Logits beyond `reach`, the window, are
    undefined.

    Args:
        num_heads: Integer, `H`.
        hidden_dim: Integer, width of the hidden layer per head, `k`.
        window: Integer, neighbours on each side, in tokens. (The paper's
            context width is `2 window + 1`.)
        activation: Activation of the hidden layer.
        use_bias: Whether the hidden layer and the logits have a bias.
        initializer: Initializer of W2, by default Glorot's normal scheme for
            a `k x (2 window + 1)` matrix.
        **kwargs: As for `DenseSynthesizer`.

    Returns:
        `Logits`: queries `(B, T, H, 2 window + 1)` and keys
        `(1, S, H, 2 window + 1)`.

    Raises:
        ValueError: If the window or a width is not a positive integer.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     4, 16, synthesizer="local_dense(window=8)")
    >>> layer(keras.random.normal((2, 100, 64))).shape
    (2, 100, 64)

    References:
        - [Xu et al., 2021](https://arxiv.org/abs/2010.12155), "local dense
          synthesizer attention"
        - [Tay et al., 2021](https://arxiv.org/abs/2005.00743), Dense variant
    """

    weight_axes = {"W2": (None, MODEL), "b2": (MODEL,)}
    last_weights = ("W2", "b2")
    remembers_last = True

    def __init__(
        self,
        num_heads: int,
        hidden_dim: int,
        window: int = 15,
        activation: Identifier = "relu",
        use_bias: bool = True,
        initializer: Identifier | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_heads,
            check_positive("hidden_dim", hidden_dim),
            activation,
            use_bias,
            initializer,
            **kwargs,
        )
        self.reach = check_positive("window", window)
        self.W2 = self.b2 = None

    @property
    def _offsets(self):
        return 2 * self.reach + 1

    def build(self, query_shape, source_shape=None):
        heads, width = self.num_heads, self._build_hidden(query_shape)
        self.W2 = self.add_table(
            "W2",
            (self._offsets, heads, width),
            self._table_initializer(width, self._offsets),
        )
        if self.use_bias:
            self.b2 = self._add_bias("b2", (heads, self._offsets))

    def call(self, query, keys=None, *, start=0, length=None):
        _, source_length = self.lengths(query, start, length)
        features = self._features(query)
        kernel = ops.cast(self.W2, features.dtype)
        band = ops.einsum("bthk,ohk->btho", features, kernel)
        if self.b2 is not None:
            band = band + ops.cast(self.b2, band.dtype)
        # The logits of the first query are in the order of offsets. Those of
        # each later query begin one place later.
        places = indices(source_length) - start + self.reach
        places = ops.mod(places, self._offsets)
        keys = ops.one_hot(places, self._offsets, dtype=band.dtype)
        shape = (1, source_length, self.num_heads, self._offsets)
        keys = ops.broadcast_to(keys[None, :, None], shape)
        return Logits(_rotated(band), keys)

    def get_config(self):
        # `window` is a method of all synthesizers.
        config = {**super().get_config(), "window": self.reach}
        return config_of(self, LocalDenseSynthesizer, config)


def _rotated(band):
    """Rotates row i of `(B, T, H, n)` by i: entry p to `(p + i) mod n`.

    Each row is repeated and flattened, and rows shorter by one are read from
    the result. This shifts each row by one without gathering entries.
    """
    batch, length, heads, size = ops.shape(band)
    blocks = (length + size - 1) // size  # rotations repeat after n rows
    band = pad(band, [[0, 0], [0, blocks * size - length], [0, 0], [0, 0]])
    band = ops.reshape(band, (batch, blocks, size, heads, size))
    band = ops.transpose(band, (0, 1, 3, 2, 4))
    twice = ops.concatenate([band, band], axis=-1)
    flat = ops.reshape(twice, (batch, blocks, heads, 2 * size * size))
    # Row i, entry p: in the flat tensor 2 n i + n + p - i.
    shape = batch, blocks, heads, size, 2 * size - 1
    rows = ops.reshape(flat[..., size:], shape)
    rows = ops.transpose(rows[..., :size], (0, 1, 3, 2, 4))
    rows = ops.reshape(rows, (batch, blocks * size, heads, size))
    return rows[:, :length]
