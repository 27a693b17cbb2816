"""Tables of distances, biases outside the alphas, and groups of heads."""

import keras
import numpy as np
import pytest
from arrays import normal
from backend import numpy, only_on
from cases import randomized

from keras_synth import mixers, synthesizers
from keras_synth.layers import SyntheticAttention

H, K, D, N, T, S = 4, 3, 12, 9, 6, 8


def table(identifier, start=0, rows=T, columns=S, num_heads=H):
    synthesizer = synthesizers.get(identifier, num_heads, K, N, seed=1)
    synthesizer.build((None, None, D))
    logits = synthesizer(normal(1, rows, D), start=start, length=columns)
    return synthesizer, numpy(logits.materialize())[0]


@pytest.mark.parametrize(
    "options",
    [
        {"num_buckets": 7},
        {"num_buckets": 2},
        {"num_buckets": 1, "bidirectional": False},
        {"max_distance": 8},
    ],
)
def test_impossible_buckets_are_errors(options):
    with pytest.raises(ValueError, match="Received"):
        synthesizers.T5RelativeSynthesizer(H, **options)


# --- slopes that are learned --------------------------------------------------


@pytest.mark.parametrize("num_heads", [1, 3, 8])
def test_learned_slopes_begin_as_alibis(num_heads):
    _, expected = table("alibi", num_heads=num_heads)
    synthesizer, found = table("alibi(trainable=True)", num_heads=num_heads)
    assert [w.shape for w in synthesizer.trainable_weights] == [(num_heads,)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("learned", [False, True])
def test_a_config_distinguishes_learned_and_frozen_slopes(learned, frozen):
    synthesizer = synthesizers.get(f"alibi(trainable={learned}) + V", H, K)
    synthesizer.trainable = not frozen
    again = type(synthesizer).from_config(synthesizer.get_config())
    for made in (synthesizer, again):
        made.build((None, T, D))
        alibi = made.synthesizers[0]
        assert len(alibi.weights) == learned
        assert len(alibi.trainable_weights) == (learned and not frozen)


# --- biases without alphas ----------------------------------------------------


def test_one_part_with_a_bias_needs_no_alphas():
    synthesizer = synthesizers.get("alibi + V", H, K)
    synthesizer.build((None, T, D))
    assert synthesizer.alphas is None
    assert len(synthesizer.weights) == 4
    alone = synthesizers.get("alibi", H)
    assert alone.is_bias
    assert synthesizers.get("alibi + t5_relative", H).is_bias
    assert not synthesizer.is_bias
    # Nested, a sum of biases is one.
    for name in ("mixture(alibi + t5_relative) + V", "mixture(V)"):
        made = synthesizers.get(name, H, K)
        made.build((None, T, D))
        assert made.alphas is None


# --- groups of heads ----------------------------------------------------------


def test_masks_and_biases_of_heads_go_to_their_groups():
    x = normal(2, T, D)
    layer = mixers.get("heads(V=2, R=2)", H, K, N)
    plain = numpy(layer(x, return_attention_scores=True)[1])
    allowed = np.ones((2, H, T, T), bool)
    allowed[:, 1, :, 2:] = allowed[:, 3, :, :3] = False
    bias = np.where(allowed, 0, -1e9).astype("float32")
    for arguments in ({"attention_mask": allowed}, {"attention_bias": bias}):
        scores = numpy(layer(x, **arguments, return_attention_scores=True)[1])
        assert not scores[~allowed].any()
        np.testing.assert_allclose(scores[:, ::2], plain[:, ::2], atol=1e-6)


# --- local dense: loops over neighbours, of any length ------------------------

W = 2


def local(name=f"local_dense(window={W})", **options):
    layer = SyntheticAttention(2, K, synthesizer=name, **options)
    layer.build((None, None, D))
    return randomized(layer, 0.7)


@pytest.mark.each_backend
@only_on("jax", "it says what it will compute")
def test_tensors_of_all_pairs_are_never_local():
    import jax

    length = 1024
    layer = local()
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
    layer = local(f"heads(1 * local_dense(window={W}) + 1 * V)")
    x = normal(2, T, D)
    _, scores = layer(x, return_attention_scores=True)
    near = np.abs(np.subtract.outer(*2 * [np.arange(T)])) <= W
    assert (
        (numpy(scores) > 0).sum((0, 2, 3)) == [2 * near.sum(), 2 * T * T]
    ).all()
    narrow = local(
        f"heads(1 * local_dense(window={W}) + 1 * V)", sliding_window=2
    )
    _, scores = narrow(x, return_attention_scores=True)
    assert (numpy(scores) > 0).sum() == 2 * 2 * (3 * T - 2)


def test_another_sequence_is_an_error():
    layer, x = local(), normal(2, T, D)
    for call in (
        lambda: layer(x, normal(2, T + 1, D)),
        lambda: layer.call_with_cache(x, layer.remember(x)),
        lambda: layer(keras.Input((3, D)), keras.Input((4, D))),
    ):
        with pytest.raises(ValueError, match=r"neighbours.*Received"):
            call()
