"""One forward pass or one training step, compiled as the backend would.

A `Program` is what is timed: a function and its weights. `inference` and
`training` turn it into a function without arguments that returns when the
result is there. Everything that differs between backends is in this file.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np

BACKEND = keras.backend.backend()
LEARNING_RATE = 1e-3
COMPILED = False  # PyTorch: whether programs go through torch.compile
BUSY = 0  # other processes that compute meanwhile


class Program(NamedTuple):
    """A function and its weights.

    Fields:
        call: `call(trained, frozen, *inputs) -> output`. On JAX it is pure;
            on TensorFlow and PyTorch a layer may read its own weights.
        trained: List of the backend's arrays or variables.
        frozen: List of those that no step changes.
    """

    call: Callable
    trained: Any
    frozen: Any = ()


def of_layer(layer, build, **call_arguments):
    """Makes a program of a Keras layer that takes one input.

    Args:
        layer: Keras layer.
        build: Function that calls the layer once on zeros.
        **call_arguments: Further keyword arguments of the layer's call.
    """
    build()
    if BACKEND == "jax":

        def call(trained, frozen, x):
            return layer.stateless_call(trained, frozen, x, **call_arguments)[0]

    else:

        def call(trained, frozen, x):
            return layer(x, **call_arguments)

    return Program(
        call,
        [variable.value for variable in layer.trainable_variables],
        [variable.value for variable in layer.non_trainable_variables],
    )


def array(x, dtype="float32"):
    """Moves a NumPy array to the device."""
    x = keras.ops.convert_to_tensor(x, dtype=dtype)
    return x.value if hasattr(x, "value") and BACKEND == "jax" else x


def device():
    """Names the device and the versions, for the head of a report."""
    beside = f", beside {BUSY} busy" if BUSY else ""
    return _device() + beside


def _device():
    if BACKEND == "jax":
        import jax

        return f"jax {jax.__version__}, {jax.devices()[0].device_kind}"
    if BACKEND == "tensorflow":
        import tensorflow as tf

        gpus = tf.config.list_physical_devices("GPU")
        return f"tensorflow {tf.__version__}, {'GPU' if gpus else 'CPU'}"
    import torch

    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    how = ", compiled" if COMPILED else ""
    return f"torch {torch.__version__}{how}, {name}"


def on_gpu():
    """Whether the backend computes on a GPU."""
    return not _device().lower().endswith("cpu")


def inference(program, *inputs):
    """Returns a function that makes one forward pass."""
    return _BACKENDS[BACKEND][0](program, inputs)


def training(program, *inputs):
    """Returns a function that makes one training step.

    Forward, backward to the weights and to the first input, and an update by
    plain gradient descent. The loss is a fixed random linear function of the
    output, which the step returns: compilers leave out what nobody asks for.
    """
    return _BACKENDS[BACKEND][1](program, inputs)


def _direction(shape):
    return np.random.default_rng(7).normal(size=shape).astype("float32")


# --- JAX ----------------------------------------------------------------------


def _jax_inference(program, inputs):
    import jax

    forward = jax.jit(program.call)

    def step():
        jax.block_until_ready(forward(program.trained, program.frozen, *inputs))

    return step


def _jax_training(program, inputs):
    import jax
    import jax.numpy as jnp

    output = jax.eval_shape(
        program.call, program.trained, program.frozen, *inputs
    )
    direction = jax.tree.map(
        lambda x: jnp.asarray(_direction(x.shape), x.dtype), output
    )

    def loss(trained, first, frozen, direction, *rest):
        output = program.call(trained, frozen, first, *rest)
        products = jax.tree.map(
            lambda x, y: jnp.sum((x * y).astype("float32")), output, direction
        )
        return sum(jax.tree.leaves(products)), output

    @jax.jit
    def update(trained, frozen, direction, *inputs):
        (slopes, by_input), output = jax.grad(loss, (0, 1), has_aux=True)(
            trained, inputs[0], frozen, direction, *inputs[1:]
        )
        trained = jax.tree.map(
            lambda w, g: w - LEARNING_RATE * g, trained, slopes
        )
        return trained, by_input, output

    state = [program.trained]

    def step():
        state[0], *rest = update(state[0], program.frozen, direction, *inputs)
        jax.block_until_ready((state[0], rest))

    return step


# --- TensorFlow ---------------------------------------------------------------


def _tensorflow_inference(program, inputs):
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def forward(*inputs):
        return program.call(program.trained, program.frozen, *inputs)

    def step():
        _wait(forward(*inputs))

    return step


def _tensorflow_training(program, inputs):
    import tensorflow as tf

    example = program.call(program.trained, program.frozen, *inputs)
    direction = tf.nest.map_structure(
        lambda x: tf.constant(_direction(x.shape), x.dtype), example
    )

    @tf.function(jit_compile=True)
    def update(direction, *inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs[0])
            output = program.call(program.trained, program.frozen, *inputs)
            products = tf.nest.map_structure(
                lambda x, y: tf.reduce_sum(tf.cast(x * y, "float32")),
                output,
                direction,
            )
            loss = tf.add_n(tf.nest.flatten(products))
        *slopes, by_input = tape.gradient(
            loss, [*program.trained, inputs[0]], unconnected_gradients="zero"
        )
        for weight, slope in zip(program.trained, slopes, strict=True):
            weight.assign_sub(
                LEARNING_RATE
                * tf.cast(tf.convert_to_tensor(slope), slope.dtype)
            )
        return by_input, output

    def step():
        _wait(update(direction, *inputs))

    return step


def _wait(output):
    """Fetches one number of each tensor: TensorFlow has no barrier."""
    import tensorflow as tf

    for x in tf.nest.flatten(output):
        tf.reshape(x, [-1])[0].numpy()


# --- PyTorch ------------------------------------------------------------------


def _torch_call(program):
    import torch

    return torch.compile(program.call) if COMPILED else program.call


def _torch_inference(program, inputs):
    import torch

    call = _torch_call(program)

    def step():
        with torch.no_grad():
            call(program.trained, program.frozen, *inputs)
        _torch_wait()

    return step


def _torch_training(program, inputs):
    import torch

    first = inputs[0].detach().requires_grad_()
    with torch.no_grad():
        output = program.call(program.trained, program.frozen, *inputs)
    outputs = output if isinstance(output, (tuple, list)) else [output]
    directions = [
        torch.as_tensor(_direction(tuple(x.shape))).to(x) for x in outputs
    ]
    weights = list(program.trained)
    call = _torch_call(program)

    def step():
        output = call(program.trained, program.frozen, first, *inputs[1:])
        outputs = output if isinstance(output, (tuple, list)) else [output]
        torch.autograd.backward(outputs, directions)
        with torch.no_grad():
            for weight in weights:
                # As torch.optim.SGD does: no product as large as the weight.
                weight.sub_(weight.grad, alpha=LEARNING_RATE)
                weight.grad = None
        first.grad = None
        _torch_wait()

    return step


def _torch_wait():
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


MODES = {"inference": inference, "training": training}

_BACKENDS = {
    "jax": (_jax_inference, _jax_training),
    "tensorflow": (_tensorflow_inference, _tensorflow_training),
    "torch": (_torch_inference, _torch_training),
}
