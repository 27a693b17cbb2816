# A start should take Python integers and tensors, as in KerasHub's samplers. On
# JAX with 64-bit types they raise an error.
# Keras 3.15.1, JAX 0.10.2.
# Error: TypeError: index arguments to dynamic_slice
import os

os.environ["KERAS_BACKEND"] = "jax"
import jax
from keras import ops

jax.config.update("jax_enable_x64", True)
ops.slice(ops.ones((2, 3)), [0, ops.ones((), "int32")], [2, 1])
