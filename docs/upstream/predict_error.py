# An error in `predict` should leave a model as it was. On JAX its weights are
# lost, and every later call raises another error.
# Keras 3.15.1, JAX 0.10.2.
# Error: 'NoneType' object is not callable
import contextlib
import os

os.environ["KERAS_BACKEND"] = "jax"
import keras

dense, reshape = keras.layers.Dense(1), keras.layers.Reshape((2,))
model = keras.Sequential([keras.Input((None, 1)), dense, reshape])
with contextlib.suppress(Exception):
    model.predict(keras.ops.ones((1, 3, 1)), verbose=0)
model.predict(keras.ops.ones((1, 2, 1)), verbose=0)
