# `MultiHeadAttention` should hide all keys from the queries that `query_mask`
# masks, as it does if the query carries this mask. It ignores the argument.
# Keras 3.15.1 on TensorFlow 2.21.0, JAX 0.10.2 and PyTorch 2.13.0.
import keras

x = keras.random.normal((1, 3, 4), seed=0)
mask = keras.ops.array([[True, True, False]])
layer = keras.layers.MultiHeadAttention(num_heads=2, key_dim=2)
change = keras.ops.abs(layer(x, x, query_mask=mask) - layer(x, x))
assert keras.ops.max(change) > 1e-6, "query_mask changes nothing"
