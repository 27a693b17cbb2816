# Without a mask, attention should see all keys. For a TPU, Keras passes a
# causal mask to JAX's Splash kernel, also instead of a mask that is the same
# for all samples. It applies the first sample's mask to all samples, drops the
# bias, and multiplies queries by `scale * sqrt(head_dim)`, but the kernel does
# not divide by this root. (Here the kernel runs on a CPU.)
# Keras 3.15.1, JAX 0.10.2.
import os

os.environ["KERAS_BACKEND"] = "jax"
from unittest import mock

import keras
from jax.experimental.pallas import tpu

x = keras.random.normal((1, 128, 1, 128), seed=0)
expected = keras.ops.dot_product_attention(0 * x, x, x)
devices = [mock.Mock(platform="tpu")]
tpus = mock.patch("jax.devices", return_value=devices)
with tpus, tpu.force_tpu_interpret_mode():
    found = keras.ops.dot_product_attention(0 * x, x, x)
error = float(keras.ops.max(keras.ops.abs(found - expected)))
assert error < 1e-3, f"the error is {error}"
