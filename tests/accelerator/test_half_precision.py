"""Half precision at the sizes of models, against the same in float32.

Kernels of attention take sizes like these only: on a GPU with JAX cuDNN's, on
PyTorch flash attention. Imports neither KerasHub nor a plugin of pytest.
"""

import contextlib

import keras
import numpy as np
import pytest
from arrays import normal, padding
from backend import derived, only_on, slow_unless
from keras import ops

from keras_synth.layers import SyntheticAttention

pytestmark = [pytest.mark.accelerator, pytest.mark.filterwarnings("ignore")]

H, K, B, T, D = 2, 64, 2, 128, 32
# `make test` asks for one.
NAMES = slow_unless(["R+V"], ["V", "D", "R+V", "D+V", "alibi+V"])
# Relative to all entries: bfloat16 has eight bits.
TOLERANCE = 0.02
IS_JAX = keras.backend.backend() == "jax"


def precise():
    """A context in which float32 is multiplied as float32."""
    if not IS_JAX:
        return contextlib.nullcontext()
    import jax

    return jax.default_matmul_precision("highest")


def loss_of(name, mask, dtype):
    """A loss of weights and inputs, and arrays for it."""
    layer = SyntheticAttention(
        H, K, synthesizer=name, max_length=T, dtype=dtype
    )
    layer.build((None, T, D))
    arrays = [
        0.2 * normal(*weight.shape, seed=i)
        for i, weight in enumerate(layer.trainable_variables)
    ]
    options = {"use_causal_mask": mask == "causal"}
    real = padding(T, 40 if mask == "padded" else T, size=T)
    if mask == "padded":
        options["value_mask"] = ops.convert_to_tensor(real)
    direction = normal(B, T, D, seed=90) * real[..., None]

    def loss(*tensors):
        *weights, x = tensors
        output, _ = layer.stateless_call(weights, [], x, **options)
        output = ops.multiply(ops.cast(output, "float32"), direction)
        return ops.sum(output), output

    return loss, [*arrays, normal(B, T, D, seed=91)]


@pytest.mark.parametrize("mask", ["padded", "causal"])
@pytest.mark.parametrize("name", NAMES)
def test_it_is_near_float32(name, mask):
    compiled = keras.backend.backend() != "torch"
    with precise():
        output, slopes = derived(*loss_of(name, mask, "float32"), compiled)
    found, gradients = derived(*loss_of(name, mask, "mixed_bfloat16"), compiled)
    assert error(found, output) <= TOLERANCE
    assert error(flat(gradients), flat(slopes)) <= TOLERANCE


def flat(arrays):
    return np.concatenate([array.ravel() for array in arrays])


def error(found, expected):
    """The length of the difference, relative to that of what is expected."""
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


@only_on("jax", "it has cuDNN's attention")
@pytest.mark.parametrize("mask", ["padded", "causal"])
@pytest.mark.parametrize("name", NAMES)
def test_cudnn_computes_it(name, mask):
    import jax

    if jax.devices()[0].platform != "gpu":
        pytest.skip("needs a GPU")
    loss, arrays = loss_of(name, mask, "mixed_bfloat16")
    program = jax.jit(jax.value_and_grad(loss, has_aux=True)).lower(*arrays)
    assert program.as_text().count("__cudnn$fmha") == 2  # with its gradient
