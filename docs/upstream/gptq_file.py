# A model should load its own file. After `quantize` with "gptq" or "awq", the
# file lacks the weights.
# https://github.com/keras-team/keras/pull/23321
# Keras 3.15.1 on TensorFlow 2.21.0, JAX 0.10.2 and PyTorch 2.13.0.
# Error: ValueError: A total of 1 objects could not be loaded.
import tempfile

import keras
import numpy as np

embedding, dense = keras.layers.Embedding(2, 8), keras.layers.Dense(8)
model = keras.Sequential([keras.Input((8,)), embedding, dense])
structure = {"pre_block_layers": [embedding], "sequential_blocks": [dense]}
config = keras.quantizers.GPTQConfig([np.zeros(8)], len)
config.sequence_length, config.num_samples = 8, 1
config.quantization_layer_structure = structure
model.quantize("gptq", config=config)
path = tempfile.mkdtemp() + "/model.weights.h5"
model.save_weights(path)
model.load_weights(path)
