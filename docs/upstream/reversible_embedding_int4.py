# A layer with the policy and the weights of another one should have the same
# outputs, for example after loading. `quantize("int4")` leaves hidden states
# unchanged, but a layer made with the resulting policy rounds them to int8.
# Keras 3.15.1 on TensorFlow 2.21.0, JAX 0.10.2 and PyTorch 2.13.0.
import keras

layer = keras.layers.ReversibleEmbedding(8, 16)
layer.build()
layer.quantize("int4")
loaded = keras.layers.ReversibleEmbedding(8, 16, dtype=layer.dtype_policy)
loaded.build()
loaded.set_weights(layer.get_weights())
x = keras.random.normal((1, 3, 16), seed=0)
change = keras.ops.abs(layer(x, reverse=True) - loaded(x, reverse=True))
assert keras.ops.max(change) < 1e-6, "the loaded layer differs"
