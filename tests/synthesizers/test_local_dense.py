"""Local Dense: loops over neighbours, any length, and a ring of values."""

import keras
import numpy as np
import pytest
from arrays import normal
from backend import numpy

from keras_synth.layers import SyntheticAttention

H, K, D, W, T = 2, 4, 8, 2, 11


def made(name=f"local_dense(window={W})", **options):
    layer = SyntheticAttention(H, K, synthesizer=name, **options)
    layer.build((None, None, D))
    for i, weight in enumerate(layer.weights):
        weight.assign(0.7 * normal(*weight.shape, seed=i))
    return layer


@pytest.mark.each_backend
@pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="JAX says what it will compute"
)
def test_tensors_of_all_pairs_are_never_made():
    import jax

    length = 1024
    layer = made()
    trace = jax.make_jaxpr(lambda x: jax.grad(lambda y: layer(y).sum())(x))(
        np.zeros((1, length, D), "float32")
    )
    sizes = [
        np.prod(variable.aval.shape)
        for equation in trace.jaxpr.eqns
        for variable in equation.outvars
    ]
    assert max(sizes) < length * length / 2


def test_each_group_of_heads_sees_its_own():
    layer = made(f"heads(1 * local_dense(window={W}) + 1 * V)")
    x = normal(2, T, D)
    _, scores = layer(x, return_attention_scores=True)
    near = np.abs(np.subtract.outer(*2 * [np.arange(T)])) <= W
    assert (
        (numpy(scores) > 0).sum((0, 2, 3)) == [2 * near.sum(), 2 * T * T]
    ).all()
    narrow = made(
        f"heads(1 * local_dense(window={W}) + 1 * V)", sliding_window=2
    )
    _, scores = narrow(x, return_attention_scores=True)
    assert (numpy(scores) > 0).sum() == 2 * 2 * (3 * T - 2)


def test_another_sequence_is_an_error():
    layer, x = made(), normal(2, T, D)
    for call in (
        lambda: layer(x, normal(2, T + 1, D)),
        lambda: layer.call_with_cache(x, layer.remember(x)),
        lambda: layer(keras.Input((3, D)), keras.Input((4, D))),
    ):
        with pytest.raises(ValueError, match=r"neighbours.*Received"):
            call()
