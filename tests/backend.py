"""What Keras has no common name for: gradients, and arrays of any dtype."""

import keras
import numpy as np
from keras import ops


def numpy(x):
    """A tensor as NumPy, half precision as float32."""
    if hasattr(x, "detach"):  # torch refuses tensors that require gradients
        x = x.detach()
    if keras.backend.is_float_dtype(keras.backend.standardize_dtype(x.dtype)):
        x = ops.cast(x, "float32")
    return ops.convert_to_numpy(x)


def gradients(function, *arrays):
    """Gradients of a scalar function of tensors, by each of its arguments."""
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        tensors = [ops.convert_to_tensor(x) for x in arrays]
        found = jax.grad(function, tuple(range(len(arrays))))(*tensors)
    elif backend == "torch":
        tensors = [
            ops.convert_to_tensor(np.asarray(x)).clone().requires_grad_()
            for x in arrays
        ]
        function(*tensors).backward()
        # A table whose rows have one entry has no gradient at all.
        found = [
            ops.zeros_like(x) if x.grad is None else x.grad for x in tensors
        ]
    else:
        import tensorflow as tf

        tensors = [tf.convert_to_tensor(x) for x in arrays]
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            value = function(*tensors)
        found = tape.gradient(value, tensors, unconnected_gradients="zero")
    return [numpy(x) for x in found]


def compiled_gradients(function, *arrays):
    """The same, compiled: by XLA on JAX and TensorFlow.

    On TensorFlow the batch size is not known when it is traced, as in `fit`.
    """
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        found = jax.jit(jax.grad(function, tuple(range(len(arrays)))))(*arrays)
    elif backend == "tensorflow":
        import tensorflow as tf

        def signature(x):
            batch = None if x.shape[0] > 1 else 1
            return tf.TensorSpec((batch, *x.shape[1:]), x.dtype)

        @tf.function(
            jit_compile=True, input_signature=[signature(x) for x in arrays]
        )
        def compiled(*tensors):
            with tf.GradientTape() as tape:
                tape.watch(tensors)
                value = function(*tensors)
            return tape.gradient(value, tensors)

        found = compiled(*arrays)
    else:
        return gradients(function, *arrays)
    return [numpy(x) for x in found]
