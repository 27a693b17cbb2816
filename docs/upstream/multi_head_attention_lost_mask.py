# The same call should have the same result. In eager mode, the first call of
# `MultiHeadAttention` removes the mask from the tensor of the caller.
# Keras 3.15.1 on TensorFlow 2.21.0, JAX 0.10.2 and PyTorch 2.13.0.
import keras

ids = keras.ops.array([[1, 2, 0]])
x = keras.layers.Embedding(3, 4, mask_zero=True)(ids)
layer = keras.layers.MultiHeadAttention(num_heads=2, key_dim=2)
change = keras.ops.abs(layer(x, x) - layer(x, x))
assert keras.ops.max(change) < 1e-6, "the second call has no mask"
