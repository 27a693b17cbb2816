"""Embeddings and biases of positions."""

import keras
import keras_hub

from keras_synth._backend.configs import config_of
from keras_synth.synthesizers import T5RelativeSynthesizer


@keras.saving.register_keras_serializable(package="keras_synth")
class RelativePositionBias(keras.layers.Layer):
    """T5's table of relative positions, one for all blocks of a stack.

    Args:
        num_heads: Integer, `H`.
        bidirectional: Whether later tokens have buckets of their own.
        **kwargs: Keyword arguments of `keras.layers.Layer`.

    Call arguments:
        x: Tensor `(B, T, d)`; only its length matters.
        start: Integer or scalar integer tensor, position of its first token.
        length: Integer or scalar integer tensor, how many tokens are attended
            to, `S`; by default T.

    Returns:
        Tensor `(1, H, T, S)`, to be added to logits.

    References:
        - [Raffel et al., 2020](https://arxiv.org/abs/1910.10683)
    """

    def __init__(self, num_heads, bidirectional=True, **kwargs):
        super().__init__(**kwargs)
        self.num_heads, self.bidirectional = num_heads, bidirectional
        self.table = T5RelativeSynthesizer(
            num_heads,
            bidirectional=bidirectional,
            dtype=self.dtype_policy,
            name="table",
        )

    def build(self, x_shape):
        self.table.build(x_shape)
        self.built = True

    def call(self, x, start=0, length=None):
        return self.table(x, start=start, length=length).bias

    def compute_output_spec(self, x, start=0, length=None):
        columns = x.shape[1] if length is None else length
        columns = columns if isinstance(columns, int) else None
        shape = (1, self.num_heads, x.shape[1], columns)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self):
        return config_of(self, RelativePositionBias, super().get_config())


def _learned(max_length, **options):
    # Initialised as `keras.layers.Embedding` is.
    return keras_hub.layers.PositionEmbedding(
        max_length, initializer="uniform", **options
    )


def _sinusoidal(max_length, **options):
    return keras_hub.layers.SinePositionEncoding(**options)


# Vectors added to those of tokens, by layers with the call of
# `keras_hub.layers.PositionEmbedding`.
ADDED = {"learned": _learned, "sinusoidal": _sinusoidal}
# Numbers added to logits.
RELATIVE = {"t5_relative": RelativePositionBias}


def make_positions(
    positions, max_length, num_heads, bidirectional, prefix, dtype
):
    """Makes a stack's embedding or bias of positions.

    Args:
        positions: String, a key of `ADDED` or `RELATIVE`, or `None` for none.
        max_length: Integer, longest sequence in tokens.
        num_heads: Integer, `H`.
        bidirectional: Whether tokens attend to later ones.
        prefix: String, start of the layer's name.
        dtype: Dtype or dtype policy.

    Returns:
        Tuple of two layers, one to add to tokens and one to add to logits;
        one of them or both are `None`.

    Raises:
        ValueError: If there are none of that name.
    """
    if positions in ADDED:
        name = f"{prefix}position_embedding"
        return ADDED[positions](max_length, dtype=dtype, name=name), None
    if positions in RELATIVE:
        name = f"{prefix}position_bias"
        table = RELATIVE[positions](
            num_heads, bidirectional, dtype=dtype, name=name
        )
        return None, table
    if positions is None:
        return None, None
    known = ", ".join(map(repr, (*ADDED, *RELATIVE)))
    raise ValueError(
        f"`positions` must be one of {known}, or None for models whose "
        "attention knows positions itself. "
        f"Received: positions={positions!r}"
    )
