# The batch should stay empty. On TensorFlow, `ops.einsum` reshapes its result,
# and no sample without tokens becomes one sample without tokens.
# Keras 3.15.1, TensorFlow 2.21.0.
import os

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras

x, kernel = keras.ops.ones((0, 0, 3)), keras.ops.ones((3, 2, 4))
shape = tuple(keras.ops.einsum("btd,dhk->bthk", x, kernel).shape)
assert shape == (0, 0, 2, 4), f"the shape is {shape}"
