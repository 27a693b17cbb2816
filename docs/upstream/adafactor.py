# A weight should stay finite if a row and a column have no gradient. With
# `Adafactor` it is NaN, because `epsilon_1 * epsilon_1` is 0 in float32.
# Keras 3.15.1 on TensorFlow 2.21.0, JAX 0.10.2 and PyTorch 2.13.0.
import keras

model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
model.compile(keras.optimizers.Adafactor(), lambda y, x: x[:, 0])
model.train_on_batch(keras.ops.array([[1.0, 0.0]]), keras.ops.zeros((1, 2)))
kernel = keras.ops.convert_to_tensor(model.layers[0].kernel)
assert keras.ops.all(keras.ops.isfinite(kernel)), "the kernel is NaN"
