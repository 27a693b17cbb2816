"""`fit(jit_compile=True)` on PyTorch trains as without."""

import keras
import numpy as np
import pytest
from every_task import TASKS, examples, task

if keras.backend.backend() != "torch":
    pytest.skip("PyTorch's compiler", allow_module_level=True)

import torch

pytestmark = pytest.mark.slow  # to compile is


def losses(kind, weights, jit_compile):
    torch._dynamo.reset()
    keras.utils.set_random_seed(0)
    model = task(kind)
    weights = weights or model.get_weights()
    model.set_weights(weights)
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.Dropout):
            layer.rate = 0.0
    model.compile("adam", model.loss, jit_compile=jit_compile)
    history = model.fit(
        *examples(kind)[:2], batch_size=4, epochs=2, shuffle=False, verbose=0
    )
    return history.history["loss"], weights


@pytest.mark.parametrize("kind", TASKS)
def test_compiled_steps_are_those_of_eager_ones(kind):
    expected, weights = losses(kind, None, False)
    found, _ = losses(kind, weights, True)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
