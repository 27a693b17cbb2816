"""Features far larger than layers normalise to: nothing overflows."""

import numpy as np
import pytest
from arrays import normal, padding
from backend import gradients, numpy, slow_but_on
from cases import CASES, MIXERS, D, H, K, N, T
from keras import ops

from keras_synth import mixers
from keras_synth.layers import SyntheticAttention

B = 3
LAYERS = {
    name: lambda name=name, **options: mixers.get(
        name, num_heads=H, key_dim=K, max_length=N, **options
    )
    for name in MIXERS
}
LAYERS |= {
    name: lambda name=name, **options: SyntheticAttention(
        H, K, synthesizer=CASES[name](), **options
    )
    for name in CASES
}


@slow_but_on("torch")
@pytest.mark.parametrize(
    ("dtype", "size"), [("float32", 1e4), ("mixed_float16", 300.0)]
)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_outputs_and_gradients_are_finite(name, masked, dtype, size):
    if dtype == "mixed_float16" and "unbounded" in MIXERS.get(name, ()):
        pytest.skip("the third power of the input")
    layer = LAYERS[name](dtype=dtype)
    x = size * normal(B, T, D)
    mask = padding(*range(T, T - B, -1), size=T) if masked else None
    masks = {} if mask is None else {"value_mask": ops.convert_to_tensor(mask)}
    outputs = numpy(layer(ops.convert_to_tensor(x), **masks))
    assert np.isfinite(outputs).all()

    def loss(x):
        return ops.sum(ops.cast(layer(x, **masks), "float32")) / size

    (found,) = gradients(loss, x)
    assert np.isfinite(found).all()
