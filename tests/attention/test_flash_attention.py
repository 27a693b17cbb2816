"""A flash kernel may be demanded wherever queries are compared with keys."""

import keras
import pytest
from arrays import normal, padding
from assertions import close
from backend import numpy, on_cpu, only_on, program
from keras import ops
from platforms import Pretended

from keras_synth import mixers, routes
from keras_synth._backend import kernels


class Flash(routes.KernelRoute):
    """Replaces a kernel that this machine may lack."""

    name = "flash"

    def cost(self, request):
        return 0.0

    def run(self, request):
        assert request.flash_attention
        return super().run(request._replace(flash_attention=None))


@pytest.mark.parametrize(
    "name", ["V", "R + V", "alibi + V", "D + V", "FR + V", "R + D", "D + D"]
)
@pytest.mark.parametrize("batch, length", [(1, 3), (2, 1)])
def test_a_kernel_works_for_a_batch_of_any_size(name, batch, length):
    layer = mixers.get(name, 2, 4, 5, flash_attention=True)
    with routes.using(Flash()):
        output = layer(ops.ones((batch, length, 8)), ops.ones((batch, 5, 8)))
    assert output.shape == (batch, length, 8)


@pytest.mark.each_backend
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_kernel_is_used_or_missed_but_never_ignored(dtype):
    layer = mixers.get("V", 2, 8, flash_attention=True, dtype=dtype)
    x = ops.ones((2, 8, 8))
    if on_cpu():  # for which there is none
        words = r"flash_attention=True is not possible: .* Leave"
        with pytest.raises(ValueError, match=words):
            layer(x)
    elif dtype == "float16":
        assert layer(x).shape == x.shape


@pytest.mark.each_backend
@pytest.mark.skipif(
    keras.backend.backend() == "tensorflow", reason="Keras has no kernel there"
)
def test_an_error_of_the_kernel_becomes_one_line(monkeypatch):
    layer = mixers.get("V", 2, 4, flash_attention=True)
    monkeypatch.setattr(kernels, "why_no_flash_kernel", lambda x: None)
    with pytest.raises(
        ValueError, match=r"does not support these logits: .* Leave.*float32"
    ):
        layer(ops.ones((2, 3, 8)))


# --- on TPUs, where Keras' kernel is wrong ------------------------------------

T, D = 6, 8
on_jax = only_on("jax", "Keras has TPUs there")


def made(name="V", **options):
    layer = mixers.get(name, 2, 4, T, **options)
    layer.build((2, T, D))
    return layer


@pytest.mark.each_backend
@on_jax
@pytest.mark.parametrize(
    "name, masked",
    [("V", "nothing"), ("R + V", "padding"), ("alibi + V", "the future")],
)
@pytest.mark.parametrize("compiled", [True, False])
def test_the_kernel_is_never_called_on_tpus(
    name, masked, compiled, monkeypatch
):
    layer = made(name)
    x = ops.convert_to_tensor(normal(2, T, D))
    options = {
        "nothing": {},
        "padding": {"value_mask": ops.convert_to_tensor(padding(3, T, size=T))},
        "the future": {"use_causal_mask": True},
    }[masked]

    def call(x):
        return layer(x, **options)

    expected = numpy(call(x))
    tpu = Pretended(monkeypatch, "tpu")
    found = numpy((program(call) if compiled else call)(x))
    assert not tpu.splashed
    close(found, expected)
    keras.layers.MultiHeadAttention(2, 4)(x, x)
    assert tpu.splashed  # Keras' own layer uses it


@pytest.mark.each_backend
@on_jax
def test_demanding_a_kernel_on_tpus_is_an_error(monkeypatch):
    layer = made(flash_attention=True)
    x = ops.convert_to_tensor(normal(2, T, D))
    Pretended(monkeypatch, "tpu")
    with pytest.raises(ValueError, match=r"on TPUs.*Leave it out"):
        layer(x)
