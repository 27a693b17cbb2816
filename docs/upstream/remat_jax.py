# A model with dropout made in a `RematScope` should train. On JAX, `fit` raises
# an error, because `training` becomes a tracer.
# Keras 3.15.1, JAX 0.10.2.
# Error: RuntimeError: Unable to automatically build the model.
import os

os.environ["KERAS_BACKEND"] = "jax"
import keras

layers = [keras.Input((1,)), keras.layers.Dense(1), keras.layers.Dropout(0.5)]
with keras.RematScope(mode="full"):
    model = keras.Sequential(layers)
model.compile("sgd", "mse")
x = keras.ops.ones((1, 1))
model.fit(x, x, verbose=0)
