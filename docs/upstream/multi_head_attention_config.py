# The config should contain all arguments. That of `MultiHeadAttention` lacks
# `flash_attention`, so that a loaded layer uses a kernel that was turned off.
# Keras 3.15.1 on TensorFlow 2.21.0, JAX 0.10.2 and PyTorch 2.13.0.
import keras

layer = keras.layers.MultiHeadAttention(2, 4, flash_attention=False)
assert "flash_attention" in layer.get_config(), "flash_attention is missing"
