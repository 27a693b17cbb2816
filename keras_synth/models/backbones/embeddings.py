"""Keras' embeddings, trained alike on every backend.

On TensorFlow the gradient of a lookup is a `tf.IndexedSlices` with a row for
each *occurrence* of a token. Keras' optimizers square these rows before they
are added up: Adam's second moment of a token that occurs n times is a sum of n
squares, not the square of the sum, and too small by a factor of up to n.
`clipnorm` and `global_clipnorm` miss the same (Keras 3.15.1). Adding the rows
up first takes no more memory than Adam's moments, which are dense anyway.
"""

import keras
from keras import ops

from keras_synth._backend.checks import check_positive
from keras_synth._backend.kernels import HAS_SPARSE_GRADIENTS


class Embedding(keras.layers.Embedding):
    """`keras.layers.Embedding` with a dense gradient."""

    def call(self, inputs):
        if not HAS_SPARSE_GRADIENTS:
            return super().call(inputs)
        # The gradient of a product is dense; compilers drop the factor.
        table = ops.multiply(self.embeddings, 1)
        rows = ops.take(table, ops.cast(inputs, "int32"), axis=0)
        return ops.cast(rows, self.compute_dtype)

    def quantize(self, mode=None, type_check=True, config=None):
        # Keras refuses subclasses, whose calls it does not know.
        return super().quantize(mode, type_check=False, config=config)


class ReversibleEmbedding(keras.layers.ReversibleEmbedding, Embedding):
    """`keras.layers.ReversibleEmbedding` with a dense gradient."""

    def quantize(self, mode=None, type_check=True, config=None):
        return super().quantize(mode, type_check=False, config=config)

    def _int4_build(self, embeddings_shape=None, config=None):
        super()._int4_build(embeddings_shape, config)
        if config is None:
            # Of a file: `quantize("int4")` leaves what comes in as it is, but
            # Keras 3.15 rounds it to int8 in a layer that is built so.
            self.inputs_quantizer = None


def token_embedding(
    vocabulary_size,
    hidden_dim,
    positions,
    dtype,
    scale_output=False,
    tie_weights=True,
):
    """The embedding of tokens, which may be the output layer, too.

    Beside learned positions it starts as they do. Beside sinusoids, which have
    unit scale, so do tokens: `embed` multiplies them by `sqrt(d)`. T5's start
    with unit scale, since the output layer divides by `sqrt(d)`.
    """
    initializer = "uniform"
    if scale_output:
        initializer = keras.initializers.RandomNormal(stddev=1.0)
    elif positions == "sinusoidal":
        initializer = keras.initializers.RandomNormal(stddev=hidden_dim**-0.5)
    return ReversibleEmbedding(
        check_positive("vocabulary_size", vocabulary_size),
        hidden_dim,
        tie_weights=tie_weights,
        embeddings_initializer=initializer,
        dtype=dtype,
        name="token_embedding",
    )
