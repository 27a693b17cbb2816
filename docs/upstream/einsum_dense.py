# Both tokens should get the biases 1 and 2 of the two heads. On TensorFlow, the
# first token gets 1 twice and the second 2 twice: `ops.add` calls
# `tf.nn.bias_add` along the second axis if only that axis has the bias' length.
# Keras 3.15.1, TensorFlow 2.21.0.
import os

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras

layer = keras.layers.EinsumDense("btd,dhk->bthk", (None, 2, 1), bias_axes="hk")
layer.build((None, None, 3))
layer.bias.assign([[1.0], [2.0]])
biases = layer(keras.ops.zeros((1, 2, 3)))[0, :, :, 0]
expected = [[1.0, 2.0], [1.0, 2.0]]
assert keras.ops.all(biases == expected), f"the biases are {biases}"
