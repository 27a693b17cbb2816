"""Mistakes seen elsewhere, by their numbers; each has one test.

Of all layers tests/mixers/test_mixer_contract.py asks that the future does not
leak (5), padding has no influence (6) and rows that see nothing are finite (9),
and tests/synthesizers/test_synthesizers.py that decoding uses the row of its
position (7).
"""

import numpy as np
import pytest
import reference
from design_helpers import (
    CASES,
    PAIR,
    B,
    D,
    H,
    K,
    N,
    S,
    attention,
    call,
    check,
    close,
    each_kind,
    functional,
    get,
    logits_of,
    normal,
    saved_and_loaded,
    scores_of,
    synthesizer_weights,
    tables,
    to_numpy,
    train_one_step,
    value_error_naming,
    value_of,
    variable,
    weighted_logits,
)

from keras_synth.layers import SyntheticAttention
from keras_synth.synthesizers import (
    FactorizedDenseSynthesizer,
    FactorizedRandomSynthesizer,
    MixtureSynthesizer,
)


def test_01_rows_of_a_low_rank_table_differ():
    layer = attention(FactorizedRandomSynthesizer(H, N, rank=2))
    logits = logits_of(layer, normal(1, N, D))[0]
    centered = logits - logits.mean(axis=-1, keepdims=True)
    singular = np.linalg.svd(centered, compute_uv=False)  # (H, N)
    assert ((singular > 1e-4).sum(axis=-1) == 2).all()
    assert (np.abs(np.diff(centered, axis=1)).max(axis=-1) > 1e-3).all()


def test_02_factorized_dense_rows_are_products_without_collisions():
    """Double differences of `A_p B_q` over the grid have rank one."""
    layer = attention(FactorizedDenseSynthesizer(H, K, 20, factors=(4, 5)))
    logits = logits_of(layer, normal(1, 20, D))
    grid = logits.reshape(-1, 4, 5)
    differences = np.diff(np.diff(grid, axis=1), axis=2)  # (rows, 3, 4)
    singular = np.linalg.svd(differences, compute_uv=False)
    assert (singular[:, 1] < 1e-4).all()
    alive = singular[:, 0] > 1e-2
    assert alive.mean() > 0.5
    for row in logits.reshape(-1, 20)[alive]:
        assert len(np.unique(row.round(7))) == 20


@pytest.mark.parametrize("case", ["D", "FD"])
def test_02_dense_logits_depend_on_only_one_token(case):
    layer = attention(case)
    x = normal(B, S, D)
    changed = x.copy()
    changed[:, 2] = normal(B, D, seed=1)
    changed[:, 4] = changed[:, 5]
    before, after = scores_of(layer, x), scores_of(layer, changed)
    changes = np.abs(after - before).max(axis=(0, 1, 3))
    assert changes[[0, 1, 3, 5]].max() < 1e-6
    assert changes[2] > 1e-3
    close(after[:, :, 4], after[:, :, 5], 1e-6)


def test_04_random_is_one_table_trained_and_saved(tmp_path):
    layer = SyntheticAttention(H, K, synthesizer="R", max_length=N)
    model = functional(layer)
    (R,) = synthesizer_weights(layer)
    assert tuple(R.shape) == (H, N, N)
    before = to_numpy(R)
    train_one_step(model, normal(B, S, D), normal(B, S, D, seed=1))
    changes = to_numpy(R) - before
    assert np.abs(changes[:, :S, :S]).max() > 0
    assert not changes[:, S:].any()
    assert not changes[:, :, S:].any()
    loaded = saved_and_loaded(model, tmp_path)
    (revived,) = tables(loaded, H, N, N)
    assert revived.trainable
    np.testing.assert_array_equal(to_numpy(revived), to_numpy(R))


@each_kind
def test_05_heads_do_not_mix(case):
    layer, x = attention(case), normal(B, S, D)
    output = variable(layer, "attention_output/kernel")
    values = variable(layer, "value/kernel")
    output.assign(to_numpy(output) * np.array([1.0, 0.0])[:, None, None])
    before = call(layer, x)
    values.assign(to_numpy(values) + np.array([0.0, 9.0])[:, None])
    close(call(layer, x), before, 1e-6)


@pytest.mark.parametrize("per_head", [True, False])
def test_10_mixtures_normalise_alphas_and_scale_dot_products(per_head):
    parts = [get("R"), get("V")]
    layer = attention(MixtureSynthesizer(parts, per_head=per_head))
    logits = [weighted_logits(layer, letter, *PAIR) for letter in "RV"]
    alphas = value_of(layer, "alphas")
    assert alphas.shape == ((2, H) if per_head else (2,))
    check(layer, PAIR, reference.mixture_logits(logits, alphas))


@pytest.mark.parametrize("case", [case for case in CASES if "V" not in case])
def test_11_pure_modes_have_no_dead_query_or_key_projections(case):
    for weight in attention(case).weights:
        assert not {"query", "key"} & set(weight.path.split("/"))


@pytest.mark.parametrize("case", [case for case in CASES if case != "V"])
def test_12_shorter_input_is_cut_and_longer_input_is_an_error(case):
    layer, x = attention(case), normal(B, N, D)
    assert call(layer, x).shape == (B, N, D)
    check(layer, [x[:, :4]], logits_of(layer, x)[:, :, :4, :4])
    for inputs in ([], [x]):
        with value_error_naming(N + 1, N):
            layer(*inputs, normal(B, N + 1, D))


def test_13_options_reach_the_layer():
    options = {"kernel_regularizer": "l2", "bias_constraint": "non_neg"}
    options |= {"kernel_initializer": "ones", "bias_initializer": "ones"}
    layer = SyntheticAttention(H, K, synthesizer="R", max_length=N, **options)
    layer(np.zeros((1, 2, D), "float32"))
    for role in ("value", "attention_output"):
        kernel = variable(layer, f"{role}/kernel")
        bias = variable(layer, f"{role}/bias")
        assert (to_numpy(kernel) == 1).all()
        assert (to_numpy(bias) == 1).all()
        assert kernel.regularizer is not None
        assert bias.constraint is not None
    assert len(layer.losses) >= 2


def test_15_fixed_random_stays_fixed_when_everything_is_unfrozen():
    layer = attention("Fix")
    model = functional(layer)
    (R,) = tables(layer, H, N, N)
    before = to_numpy(R)
    model.trainable = False
    for thing in (model, layer, layer):
        thing.trainable = True
        assert not any(w is R for w in layer.trainable_weights)
        assert not any(w is R for w in model.trainable_weights)
        assert any(w is R for w in model.non_trainable_weights)
    train_one_step(model, normal(B, S, D), normal(B, S, D, seed=1))
    np.testing.assert_array_equal(to_numpy(R), before)
