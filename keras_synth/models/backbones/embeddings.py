"""Keras' embeddings, with the same training on all backends.

On TensorFlow the gradient of a lookup is a `tf.IndexedSlices` with a row for
each *occurrence* of a token. Keras' optimizers square these rows before they
add them: Adam's second moment of a token that occurs n times is a sum of n
squares, not the square of the sum, and too small by a factor of up to n.
`clipnorm` and `global_clipnorm` have the same error (Keras 3.15.1). The sum of
rows needs no more memory than Adam's moments, which are dense.
"""

import keras
from keras import ops

from keras_synth._backend.checks import check_positive
from keras_synth._backend.kernels import HAS_SPARSE_GRADIENTS


@keras.saving.register_keras_serializable(package="keras_synth")
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
    hidden_dim, initializer = arguments["hidden_dim"], "uniform"
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
