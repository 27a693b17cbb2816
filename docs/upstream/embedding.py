# The first step of Adam should be the learning rate, here 0.1. On TensorFlow,
# a token that occurs 100 times moves by 1.0, because each optimizer squares
# the rows of a sparse gradient before it adds them.
# Keras 3.15.1, TensorFlow 2.21.0.
import os

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras

layer = keras.layers.Embedding(2, 1, embeddings_initializer="zeros")
model = keras.Sequential([keras.Input((100,), dtype="int32"), layer])
model.compile(keras.optimizers.Adam(0.1), lambda y, x: keras.ops.sum(x))
model.train_on_batch(keras.ops.zeros((1, 100), "int32"), keras.ops.zeros(1))
step = abs(float(layer.embeddings[0, 0]))
assert step < 0.11, f"the step is {step}"
