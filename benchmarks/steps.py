"""Layers to compare, and their steps as the backend would compile them.

A `Program` is a function and its weights; `MODES` turn it into a function
without arguments that returns when the result is there. All that differs
between backends is in this file.
"""

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_synth import mixers

BACKEND = keras.backend.backend()
LEARNING_RATE = 1e-3
COMPILED = False  # PyTorch: whether programs go through torch.compile
BASELINE = "MultiHeadAttention"
FLOOR = "floor of R"
MASKS = ["plain", "padded", "causal"]


class Program(NamedTuple):
    """A function and its weights.

    Fields:
        call: `call(trained, frozen, x) -> output`. On JAX it is pure; on
            TensorFlow and PyTorch a layer may read its own weights.
        trained: List of the backend's arrays or variables.
        frozen: List of those that no step changes.
    """

    call: Callable
    trained: Any
    frozen: Any = ()


def of_layer(layer, copies=1, **arguments):
    """Makes a program of a built Keras layer.

    Args:
        layer: Keras layer.
        copies: Integer, how often the input is passed: as query, as value.
        **arguments: Further arguments of the layer's call.
    """

    def call(trained, frozen, x):
        inputs = [x] * copies
        if BACKEND == "jax":
            call = layer.stateless_call
            return call(trained, frozen, *inputs, **arguments)[0]
        return layer(*inputs, **arguments)

    return Program(
        call,
        [variable.value for variable in layer.trainable_variables],
        [variable.value for variable in layer.non_trainable_variables],
    )


def array(x, dtype="float32"):
    """Moves a NumPy array to the device."""
    x = keras.ops.convert_to_tensor(x, dtype=dtype)
    return x.value if hasattr(x, "value") and BACKEND == "jax" else x


def place():
    """Where the backend computes: `"cpu"`, `"gpu"` or `"tpu"`, and its name."""
    if BACKEND == "torch":
        import torch

        if torch.cuda.is_available():
            return "gpu", torch.cuda.get_device_name()
    elif BACKEND == "jax":
        import jax

        device = jax.devices()[0]
        if device.platform != "cpu":
            where = "tpu" if device.platform == "tpu" else "gpu"
            return where, device.device_kind
    else:
        import tensorflow as tf

        for where in ("TPU", "GPU"):
            for device in tf.config.list_physical_devices(where):
                found = tf.config.experimental.get_device_details(device)
                return where.lower(), found.get("device_name", where)
    return "cpu", "CPU"


def device():
    """Names the device and the versions, for the head of a table."""
    version = importlib.import_module(BACKEND).__version__
    how = ", compiled" if COMPILED and BACKEND == "torch" else ""
    return f"{BACKEND} {version}{how}, {place()[1]}"


def on_gpu():
    """Whether the backend computes on a GPU, or a TPU."""
    return place()[0] != "cpu"


# --- layers ---


class Cell(NamedTuple):
    """One shape, dtype and mask.

    Fields:
        batch: Integer, `B`.
        length: Integer, `T`.
        width: Integer, `d`.
        heads: Integer, `H`.
        dtype: String, of weights and computations.
        mask: `"plain"`, `"padded"` or `"causal"`.
    """

    batch: int
    length: int
    width: int
    heads: int
    dtype: str = "float32"
    mask: str = "plain"

    @property
    def shape(self):
        return self.batch, self.length, self.width

    def inputs(self):
        x = np.random.default_rng(0).normal(size=self.shape)
        return array(x, self.dtype)

    def padding(self):
        """Boolean `(B, T)`: one full sample, the others at least half full."""
        lengths = np.random.default_rng(1).integers(
            self.length // 2, self.length, self.batch, endpoint=True
        )
        lengths[0] = self.length
        return np.arange(self.length) < lengths[:, None]


def check(parser, names, others=(BASELINE, FLOOR)):
    """Ends with the parser's error if a name is not known."""
    for name in names:
        if name not in others:
            try:
                mixers.registry.mixer_class(name)
            except ValueError as error:
                parser.error(
                    f"unknown variant {name!r}: expected one of "
                    f"{[*others]} or a name for mixers.get. {error}"
                )


def layer_of(name, cell, **options):
    """A layer without weights: MultiHeadAttention or a mixer."""
    options |= {"num_heads": cell.heads, "key_dim": cell.width // cell.heads}
    if name == BASELINE:
        return keras.layers.MultiHeadAttention(**options)
    return mixers.get(name, max_length=cell.length, **options)


def make(name, cell):
    """Returns the `Program` of a name in a cell."""
    if name == FLOOR:
        return _floor(cell)
    layer, arguments = layer_of(name, cell, dtype=cell.dtype), {}
    if cell.mask == "padded":
        arguments["value_mask"] = array(cell.padding(), "bool")
    if cell.mask == "causal":
        arguments["use_causal_mask"] = True
    copies = 2 if name == BASELINE else 1
    layer(*[keras.ops.zeros(cell.shape, cell.dtype)] * copies, **arguments)
    return of_layer(layer, copies, **arguments)


def _floor(cell):
    """The matrix products that R cannot avoid, bare, each as it likes it.

    Value projection, one `(H, T, S)` table by the values of the whole batch,
    output projection: no bias, no softmax, no transposition in between.
    """
    tokens, (heads, width) = cell.batch * cell.length, (cell.heads, cell.width)
    shapes = [
        (heads, cell.length, cell.length),
        (heads, cell.length, cell.batch * width // heads),
        *[(width, width)] * 2,
        (tokens, width),
    ]
    random = np.random.default_rng(2)
    weights = [
        array(random.normal(size=s, scale=s[0] ** -0.5), cell.dtype)
        for s in shapes
    ]
    if BACKEND == "torch":
        weights = [x.requires_grad_() for x in weights]
    if BACKEND == "tensorflow":
        import tensorflow as tf

        weights = [tf.Variable(x) for x in weights]

    def call(trained, frozen, x):
        table, values, first, second, context = trained
        x = keras.ops.reshape(x, (tokens, width))
        pairs = (x, first), (table, values), (context, second)
        return [keras.ops.matmul(*pair) for pair in pairs]

    return Program(call, weights)


# --- steps ---


def inference(program, x):
    """Returns a function that makes one forward pass."""
    return _BACKENDS[BACKEND](program, x, False)


def training(program, x):
    """Returns a function that makes one training step.

    Forward, backward to the weights and to the input, and an update by plain
    gradient descent. The loss is a fixed random linear function of the output,
    which the step returns: compilers leave out what nobody asks for.
    """
    return _BACKENDS[BACKEND](program, x, True)


MODES = {"inference": inference, "training": training}


def step_of(mode, name, cell):
    """Returns a step of a name in a cell."""
    return MODES[mode](make(name, cell), cell.inputs())


def _directions(output):
    """A random tensor for each of a program's outputs."""
    return [
        array(np.random.default_rng(7).normal(size=tuple(x.shape)), x.dtype)
        for x in keras.tree.flatten(output)
    ]


def _products(output, directions):
    pairs = zip(keras.tree.flatten(output), directions, strict=True)
    return sum(
        keras.ops.sum(keras.ops.cast(x * y, "float32")) for x, y in pairs
    )


def _jax(program, x, is_training):
    import jax

    frozen = program.frozen
    if not is_training:
        forward = jax.jit(program.call)
        return lambda: jax.block_until_ready(
            forward(program.trained, frozen, x)
        )

    def loss(trained, x, frozen, directions):
        output = program.call(trained, frozen, x)
        return _products(output, directions), output

    @jax.jit
    def update(trained, x, frozen, directions):
        derive = jax.grad(loss, (0, 1), has_aux=True)
        (slopes, by_input), output = derive(trained, x, frozen, directions)
        trained = jax.tree.map(
            lambda w, g: w - LEARNING_RATE * g, trained, slopes
        )
        return trained, by_input, output

    output = jax.eval_shape(program.call, program.trained, frozen, x)
    directions = _directions(output)
    trained = program.trained

    def step():
        nonlocal trained
        trained, *rest = update(trained, x, frozen, directions)
        jax.block_until_ready((trained, rest))

    return step


def _tensorflow(program, x, is_training):
    import tensorflow as tf

    def call(x):
        return program.call(program.trained, program.frozen, x)

    def update(x, directions):
        with tf.GradientTape() as tape:
            tape.watch(x)
            output = call(x)
            loss = _products(output, directions)
        *slopes, by_input = tape.gradient(
            loss, [*program.trained, x], unconnected_gradients="zero"
        )
        for weight, slope in zip(program.trained, slopes, strict=True):
            slope = tf.convert_to_tensor(slope)
            weight.assign_sub(LEARNING_RATE * tf.cast(slope, weight.dtype))
        return by_input, output

    inputs = [x, _directions(call(x))] if is_training else [x]
    compiled = tf.function(update if is_training else call, jit_compile=True)

    def step():
        for x in tf.nest.flatten(compiled(*inputs)):
            tf.reshape(x, [-1])[0].numpy()  # TensorFlow has no barrier

    return step


def _torch(program, x, is_training):
    import torch

    call = torch.compile(program.call) if COMPILED else program.call
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None

    def forward():
        with torch.no_grad():
            output = call(program.trained, program.frozen, x)
        wait()
        return output

    if not is_training:
        return forward
    with torch.no_grad():
        output = program.call(program.trained, program.frozen, x)
    directions = _directions(output)
    x = x.detach().requires_grad_()
    weights = list(program.trained)

    def step():
        output = call(program.trained, program.frozen, x)
        torch.autograd.backward(keras.tree.flatten(output), directions)
        with torch.no_grad():
            for weight in weights:
                # As torch.optim.SGD does: no product as large as the weight.
                weight.sub_(weight.grad, alpha=LEARNING_RATE)
                weight.grad = None
        x.grad = None
        wait()

    return step


_BACKENDS = {"jax": _jax, "tensorflow": _tensorflow, "torch": _torch}
