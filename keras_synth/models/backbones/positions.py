"""Embeddings and biases of positions."""

import keras
import keras_hub
from keras import ops

from keras_synth._backend.configs import Configured
from keras_synth._backend.tensors import indices
from keras_synth.folding import plain_layer
from keras_synth.synthesizers import T5RelativeSynthesizer


@keras.saving.register_keras_serializable(package="keras_synth")
class RelativePositionBias(Configured, keras.layers.Layer):
    """T5's table of relative positions, one for all blocks of a stack.

    It returns a tensor `(1, H, T, S)`, to be added to logits. Of x,
    `(B, T, d)`, it uses only the length. S is `length`, by default T.
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


def make_positions(
    positions, max_length, num_heads, bidirectional, prefix, dtype
):
    """Returns a layer to add to tokens and one to add to logits, or `None`."""
    embedding = {"dtype": dtype, "name": f"{prefix}position_embedding"}
    if positions is None:
        return None, None
    if positions == "learned":
        # The initializer of `keras.layers.Embedding`.
        return keras_hub.layers.PositionEmbedding(
            max_length, initializer="uniform", **embedding
        ), None
    if positions == "sinusoidal":
        return SinePositions(**embedding), None
    if positions == "t5_relative":
        return None, RelativePositionBias(
            num_heads, bidirectional, dtype=dtype, name=f"{prefix}position_bias"
        )
    raise ValueError(
        "`positions` must be one of 'learned', 'sinusoidal', 't5_relative', or "
        "None for models whose attention depends on positions. Received: "
        f"positions={positions!r}"
    )


@keras.saving.register_keras_serializable(package="keras_synth")
class SinePositions(keras_hub.layers.SinePositionEncoding):
    """KerasHub's layer, which PyTorch also exports with an open length."""

    def call(self, inputs, start_index=0, positions=None):
        if positions is None:  # Keras finds no dtype for PyTorch's open length
            positions = indices(ops.shape(inputs)[-2])
            positions = ops.cast(positions + start_index, self.compute_dtype)
        return super().call(inputs, positions=positions)


@plain_layer.register(RelativePositionBias)
@plain_layer.register(keras_hub.layers.PositionEmbedding)
@plain_layer.register(keras_hub.layers.SinePositionEncoding)
@plain_layer.register(SinePositions)
def _plain(layer, graph):
    """An array: of a sequence they read only the length."""

    def call(x, start_index=0):
        zeros = ops.zeros((1, *x.shape[1:]))
        return ops.convert_to_numpy(layer(zeros))

    return call
