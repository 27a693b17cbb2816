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

from keras_synth._backend.execution import has_sparse_gradients


class Embedding(keras.layers.Embedding):
    """`keras.layers.Embedding` with a dense gradient."""

    def call(self, inputs):
        if not has_sparse_gradients():
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
