# A query without visible keys should get zeros. `ops.dot_product_attention`
# returns the average of all values, although they are masked.
# Keras 3.15.1 on TensorFlow 2.21.0, JAX 0.10.2 and PyTorch 2.13.0.
import keras

query, value = keras.ops.zeros((1, 2, 1, 4)), keras.ops.ones((1, 2, 1, 4))
mask = keras.ops.zeros((1, 1, 2, 2), "bool")
found = keras.ops.dot_product_attention(query, query, value, mask=mask)
assert keras.ops.max(keras.ops.abs(found)) < 1e-6, "masked values are used"
