"""Functions that Keras lacks: gradients, and arrays of any dtype."""

import contextlib
import importlib.util

import keras
import numpy as np
import pytest
from keras import ops

from keras_synth._backend import execution

BACKENDS = ("tensorflow", "jax", "torch")
INSTALLED = [name for name in BACKENDS if importlib.util.find_spec(name)]


def numpy(x):
    """A tensor as NumPy, half precision as float32."""
    if hasattr(x, "detach"):  # torch cannot convert tensors with gradients
        x = x.detach()
    if keras.backend.is_float_dtype(keras.backend.standardize_dtype(x.dtype)):
        x = ops.cast(x, "float32")
    return ops.convert_to_numpy(x)


def program(function):
    """A function of tensors as one program, where steps cost more than one.

    Step by step JAX would compile each operation for each shape. The function
    builds no layer and draws no random numbers.
    """
    if keras.backend.backend() != "jax":
        return function
    import jax

    return jax.jit(function)


def without_gradients():
    """A context in which PyTorch records none, as in `predict`."""
    if keras.backend.backend() != "torch":
        return contextlib.nullcontext()
    import torch

    return torch.no_grad()


def gradients(function, *arrays):
    """Gradients of a scalar function of tensors, by each of its arguments."""

    def loss(*tensors):
        value = function(*tensors)
        return value, value

    # As one program: step by step JAX would compile each operation.
    return derived(loss, arrays, keras.backend.backend() == "jax")[1]


def derived(loss, arrays, compiled=False):
    """Output and gradients, as arrays, of a loss that also returns the output.

    With `compiled`, XLA compiles both passes on JAX and TensorFlow.
    """
    backend = keras.backend.backend()
    find = {"jax": _by_jax, "tensorflow": _by_tensorflow, "torch": _by_torch}
    output, slopes = find[backend](loss, arrays, compiled)
    # A table whose rows have one entry has no gradient at all.
    return numpy(output), [
        np.zeros_like(x) if slope is None else numpy(slope)
        for x, slope in zip(arrays, slopes, strict=True)
    ]


def _by_jax(loss, arrays, compiled):
    import jax

    every = tuple(range(len(arrays)))
    both = jax.value_and_grad(loss, every, has_aux=True)
    both = jax.jit(both) if compiled else both
    (_, output), slopes = both(*map(ops.convert_to_tensor, arrays))
    return output, slopes


def _by_tensorflow(loss, arrays, compiled):
    import tensorflow as tf

    def both(*tensors):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            value, output = loss(*tensors)
        return output, tape.gradient(
            value, tensors, unconnected_gradients="zero"
        )

    if compiled:
        both = tf.function(both, jit_compile=True)
    return both(*map(tf.convert_to_tensor, arrays))


def _by_torch(loss, arrays, compiled):
    tensors = [
        ops.convert_to_tensor(np.asarray(x)).clone().requires_grad_()
        for x in arrays
    ]
    value, output = loss(*tensors)
    if value.requires_grad:
        value.backward()
    return output.detach(), [x.grad for x in tensors]


def compiled_gradients(function, *arrays):
    """The same, compiled: on TensorFlow by XLA, as JAX compiles any.

    The batch size is not known when it is traced, as in `fit`.
    """
    if keras.backend.backend() != "tensorflow":
        return gradients(function, *arrays)
    return _evaluated(lambda *x: _slopes(function, x), arrays, True)


def second_derivatives(function, arrays, directions, compiled=False):
    """Second derivatives of a scalar function along directions.

    The gradients, by each array, of the sum over all arrays of the function's
    gradient times a direction; `compiled` as in `compiled_gradients`.
    """

    def along(*tensors):
        pairs = zip(_slopes(function, tensors), directions, strict=True)
        return sum(ops.sum(x * ops.convert_to_tensor(y)) for x, y in pairs)

    return _evaluated(lambda *x: _slopes(along, x), arrays, compiled)


def _slopes(function, tensors):
    """Gradients of a scalar function, which can be differentiated again."""
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        return jax.grad(function, tuple(range(len(tensors))))(*tensors)
    if backend == "torch":
        import torch

        value = function(*tensors)
        return torch.autograd.grad(value, tensors, create_graph=True)
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(tensors)
        value = function(*tensors)
    return tape.gradient(value, tensors)


def _evaluated(function, arrays, compiled):
    """What a function of tensors returns, as arrays."""
    backend = keras.backend.backend()
    tensors = [*map(ops.convert_to_tensor, arrays)]
    if backend == "torch":
        tensors = [x.clone().requires_grad_() for x in tensors]
    elif backend == "jax" and compiled:
        import jax

        function = jax.jit(function)
    elif backend == "tensorflow":
        import tensorflow as tf

        signature = [
            tf.TensorSpec((None if len(x) > 1 else 1, *x.shape[1:]), x.dtype)
            for x in arrays
        ]
        # A graph without AutoGraph, as Keras makes one of a step.
        function = tf.function(
            function,
            input_signature=signature if compiled else None,
            autograph=False,
            jit_compile=compiled or None,
        )
    return [numpy(x) for x in function(*tensors)]


def on_cpu():
    """Whether this backend computes on a CPU here."""
    return execution.on_cpu(ops.convert_to_tensor(0.0))


def some_on_each_backend(values, chosen):
    """Values of one parameter: `make test` asks each backend the chosen."""
    chosen = [*chosen]
    return [
        pytest.param(x, marks=pytest.mark.each_backend) if x in chosen else x
        for x in values
    ]


def slow_unless(quick, values):
    """Values of one parameter, of which `make test` asks some."""
    return [
        x if x in quick else pytest.param(x, marks=pytest.mark.slow)
        for x in values
    ]


def only_on(backend, reason):
    """Marks what only one backend has."""
    here = keras.backend.backend() == backend
    return pytest.mark.skipif(not here, reason=reason)


def build_optimizer(model):
    """Makes the optimizer's variables, before the first step would.

    TensorFlow traces a step that makes variables a second time, without.
    """
    model.optimizer.build(model.trainable_variables)


def beside(package):
    """Marks a test against a published PyTorch package, by its module's name.

    `make test-full` installs these packages.
    """
    torch = keras.backend.backend() == "torch"
    missing = importlib.util.find_spec(package) is None

    def marked(test):
        test = pytest.mark.skipif(
            missing or not torch, reason=f"needs PyTorch and {package}"
        )(test)
        return pytest.mark.slow(test)

    return marked
