"""Embeddings of tokens, segments and positions, and biases of positions."""

import keras
import keras_hub
import numpy as np
from keras import ops

from keras_synth._backend.checks import check_positive
from keras_synth._backend.kernels import HAS_SPARSE_GRADIENTS
from keras_synth._backend.layer import Layer
from keras_synth._backend.tensors import indices
from keras_synth.folding import plain_layer
from keras_synth.synthesizers import T5RelativeSynthesizer


@keras.saving.register_keras_serializable(package="keras_synth")
class Embedding(keras.layers.Embedding):
    """`keras.layers.Embedding`, with the same training on all backends.

    On TensorFlow the gradient of a lookup is a `tf.IndexedSlices` with a row
    for each *occurrence* of a token. Keras' optimizers square these rows before
    they add them: Adam's second moment of a token that occurs n times is a sum
    of n squares, not the square of the sum, and too small by a factor of up to
    n. `clipnorm` and `global_clipnorm` have the same error (Keras 3.15.1). The
    sum of rows needs no more memory than Adam's moments, which are dense.
    """

    def call(self, inputs):
        if not HAS_SPARSE_GRADIENTS:
            return super().call(inputs)
        # The gradient of a product is dense; compilers drop the factor.
        table = ops.multiply(self.embeddings, 1)
        rows = ops.take(table, ops.cast(inputs, "int32"), axis=0)
        return ops.cast(rows, self.compute_dtype)

    def quantize(self, mode=None, type_check=True, config=None):
        # Keras does not support subclasses.
        return super().quantize(mode, type_check=False, config=config)


@keras.saving.register_keras_serializable(package="keras_synth")
class ReversibleEmbedding(keras.layers.ReversibleEmbedding, Embedding):
    """`keras.layers.ReversibleEmbedding` with a dense gradient."""

    def quantize(self, mode=None, type_check=True, config=None):
        return super().quantize(mode, type_check=False, config=config)

    def _int4_build(self, embeddings_shape=None, config=None):
        super()._int4_build(embeddings_shape, config)
        if config is None:
            # For a loaded layer: `quantize("int4")` does not quantize inputs,
            # but Keras 3.15 rounds them to int8 in a layer that is built
            # quantized.
            self.inputs_quantizer = None


def token_embedding(arguments):
    """The embedding of a backbone's tokens, which can be the output layer.

    With learned positions it has their initial scale. With sinusoids, which
    have unit scale, tokens also have unit scale, because `embed` multiplies
    them by `sqrt(d)`. T5's tokens have unit initial scale, because the output
    layer divides by `sqrt(d)`.
    """
    hidden_dim = check_positive("hidden_dim", arguments["hidden_dim"])
    initializer = "uniform"
    if arguments["scale_output"]:
        initializer = keras.initializers.RandomNormal(stddev=1.0)
    elif arguments["positions"] == "sinusoidal":
        initializer = keras.initializers.RandomNormal(stddev=hidden_dim**-0.5)
    return ReversibleEmbedding(
        check_positive("vocabulary_size", arguments["vocabulary_size"]),
        hidden_dim,
        tie_weights=arguments.get("tie_embedding_weights", True),
        embeddings_initializer=initializer,
        dtype=arguments["dtype"],
        name="token_embedding",
    )


@keras.saving.register_keras_serializable(package="keras_synth")
class RelativePositionBias(Layer):
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
    """KerasHub's layer, with angles in float32.

    In half precision, angles of more than some tokens are wrong, and many
    positions are equal. PyTorch also exports it with an open length.
    """

    def call(self, inputs, start_index=0, positions=None):
        if positions is None:
            positions = indices(ops.shape(inputs)[-2]) + start_index
        at = np.arange(inputs.shape[-1])
        rates = self.max_wavelength ** -(at // 2 * 2 / len(at))
        angles = ops.multiply(
            ops.cast(positions, "float32")[..., None], rates.astype("float32")
        )
        waves = ops.where(at % 2 == 1, ops.cos(angles), ops.sin(angles))
        waves = ops.cast(waves, self.compute_dtype)
        return ops.broadcast_to(waves, ops.shape(inputs))


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
