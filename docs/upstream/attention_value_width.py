# Values should have any width, as on TensorFlow and PyTorch. On JAX,
# `ops.dot_product_attention` raises an error unless they are as wide as keys,
# and so does `MultiHeadAttention` if `value_dim` is not `key_dim`.
# Keras 3.15.1, JAX 0.10.2.
# Error: TypeError: cannot reshape array of shape (1, 3, 2, 1, 6)
import os

os.environ["KERAS_BACKEND"] = "jax"
import keras

query, value = keras.ops.ones((1, 3, 2, 4)), keras.ops.ones((1, 3, 2, 6))
keras.ops.dot_product_attention(query, query, value)
