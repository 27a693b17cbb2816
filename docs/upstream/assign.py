# `assign` should copy a variable. On JAX both variables share memory, which
# training one of them frees.
# Keras 3.15.1, JAX 0.10.2.
# Error: RuntimeError: Array has been deleted
import os

os.environ["KERAS_BACKEND"] = "jax"
import keras

models = [keras.Sequential([keras.layers.Dense(1)]) for _ in range(2)]
x = keras.ops.ones((1, 1))
for model in models:
    model.build((None, 1))
models[0].layers[0].kernel.assign(models[1].layers[0].kernel)
models[1].compile("sgd", "mse")
models[1].fit(x, x, verbose=0)
models[0].predict(x, verbose=0)
