"""A flash kernel may be demanded wherever queries are compared with keys."""

import keras
import pytest
from backend import on_cpu
from keras import ops

from keras_synth import routes
from keras_synth._backend import kernels
from keras_synth.layers import SyntheticAttention


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
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("length", [1, 3])
def test_a_kernel_works_for_a_batch_of_any_size(name, batch, length):
    layer = SyntheticAttention(
        2, 4, synthesizer=name, max_length=5, flash_attention=True
    )
    with routes.using(Flash()):
        output = layer(ops.ones((batch, length, 8)), ops.ones((batch, 5, 8)))
    assert output.shape == (batch, length, 8)


@pytest.mark.each_backend
@pytest.mark.skipif(not on_cpu(), reason="where there is no flash kernel")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_it_is_an_error_without_a_kernel(dtype):
    layer = SyntheticAttention(
        2, 4, synthesizer="V", flash_attention=True, dtype=dtype
    )
    with pytest.raises(
        ValueError, match=r"flash_attention=True is not possible: .* Leave"
    ):
        layer(ops.ones((2, 3, 8)))


@pytest.mark.each_backend
@pytest.mark.skipif(
    keras.backend.backend() == "tensorflow", reason="Keras has no kernel there"
)
def test_an_error_of_the_kernel_becomes_one_line(monkeypatch):
    layer = SyntheticAttention(2, 4, synthesizer="V", flash_attention=True)
    monkeypatch.setattr(kernels, "why_no_flash_kernel", lambda x: None)
    with pytest.raises(
        ValueError, match=r"does not support these logits: .* Leave.*float32"
    ):
        layer(ops.ones((2, 3, 8)))
