# `ops.dot_product_attention` should add the bias and apply the mask, as on
# TensorFlow and JAX. On PyTorch it raises an error.
# Keras 3.15.1, PyTorch 2.13.0.
# Error: ValueError: Only one of `bias` and `mask` can be provided.
import os

os.environ["KERAS_BACKEND"] = "torch"
import keras

x, bias = keras.ops.ones((1, 2, 1, 4)), keras.ops.zeros((1, 1, 2, 2))
mask = keras.ops.ones((1, 1, 2, 2), "bool")
keras.ops.dot_product_attention(x, x, x, bias=bias, mask=mask)
