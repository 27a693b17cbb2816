# A model made in a `RematScope` should train. On TensorFlow, `fit` raises an
# error in its graph.
# Keras 3.15.1, TensorFlow 2.21.0.
# Error: keywords arguments only when eager execution is enabled
import os

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras

with keras.RematScope(mode="full"):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
x = keras.ops.ones((1, 1))
model.fit(x, x, verbose=0)
