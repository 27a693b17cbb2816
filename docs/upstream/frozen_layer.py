# A frozen layer should be frozen in a file or a copy, too. Its parts are
# trained, although its `trainable` is False.
# Keras 3.15.1 on TensorFlow 2.21.0, JAX 0.10.2 and PyTorch 2.13.0.
import keras

x = keras.Input((3, 4))
layer = keras.layers.MultiHeadAttention(num_heads=2, key_dim=2)
model = keras.Model(x, layer(x, x))
layer.trainable = False
assert not model.trainable_weights
copy = keras.Model.from_config(model.get_config())
assert not copy.trainable_weights, "8 weights are trained again"
