"""`torch.compile` leaves the results as they are."""

import keras
import numpy as np
import pytest
from backend import numpy
from keras import ops

from keras_synth.layers import SyntheticAttention

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="PyTorch only"
)


@pytest.mark.parametrize(
    "name",
    [*(pytest.param(x, marks=pytest.mark.slow) for x in "RV"), "D+V"],
)
def test_compiled_layers_give_the_same(name):
    import torch

    layer = SyntheticAttention(2, 4, synthesizer=name, max_length=6)
    x = np.random.default_rng(0).normal(size=(3, 6, 8)).astype("float32")
    x = ops.convert_to_tensor(x)
    mask = ops.convert_to_tensor(np.arange(6) < [[6], [4], [2]])
    expected = layer(x, value_mask=mask)
    # Without the code generator, which needs a C++ compiler.
    compiled = torch.compile(layer, backend="aot_eager")
    found = compiled(x, value_mask=mask)
    np.testing.assert_allclose(numpy(found), numpy(expected), atol=1e-6)
    slopes = []
    for output in (expected, found):
        layer.zero_grad()
        output.square().sum().backward()
        slopes.append(numpy(layer.value.kernel.value.grad))
    np.testing.assert_allclose(slopes[1], slopes[0], atol=1e-5)
