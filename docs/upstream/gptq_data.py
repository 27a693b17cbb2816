# Different data should lead to different weights. `quantize` with "gptq" or
# "awq" ignores the data.
# https://github.com/keras-team/keras/pull/23512
# Keras 3.15.1 on TensorFlow 2.21.0, JAX 0.10.2 and PyTorch 2.13.0.
import keras
import numpy as np

kernels = []
for token in range(2):
    keras.utils.set_random_seed(0)
    embedding, dense = keras.layers.Embedding(2, 8), keras.layers.Dense(8)
    model = keras.Sequential([keras.Input((8,)), embedding, dense])
    structure = {"pre_block_layers": [embedding], "sequential_blocks": [dense]}
    config = keras.quantizers.GPTQConfig([np.full(8, token)], len)
    config.sequence_length, config.num_samples = 8, 1
    config.quantization_layer_structure = structure
    model.quantize("gptq", config=config)
    kernels.append(keras.ops.convert_to_numpy(dense.quantized_kernel))
assert (kernels[0] != kernels[1]).any(), "the weights are equal"
