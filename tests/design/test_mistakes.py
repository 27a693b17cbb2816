"""Mistakes seen elsewhere, by their numbers.

Tests of other folders catch the others. tests/mixers/test_random_cases.py
compares with formulas: rows of a low-rank table differ (1), logits depend on
one token (2), heads do not mix (5), tables are cut (12). test_design.py counts
weights (11). tests/mixers/test_mixer_contract.py asks of all layers that the
future does not leak (5), padding has no influence (6) and rows that see nothing
are finite (9), and tests/synthesizers/test_synthesizers.py that decoding uses
the row of its position (7).
"""

import numpy as np
import pytest
import reference
from backend import numpy
from design_helpers import (
    PAIR,
    B,
    D,
    H,
    K,
    N,
    S,
    attention,
    check,
    functional,
    get,
    logits_of,
    normal,
    saved_and_loaded,
    synthesizer_weights,
    tables,
    train_one_step,
    value_of,
    variable,
    weighted_logits,
)

from keras_synth.layers import SyntheticAttention
from keras_synth.synthesizers import (
    FactorizedDenseSynthesizer,
    MixtureSynthesizer,
)


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


def test_04_random_is_one_table_trained_and_saved(tmp_path):
    layer = SyntheticAttention(H, K, synthesizer="R", max_length=N)
    model = functional(layer)
    (R,) = synthesizer_weights(layer)
    assert tuple(R.shape) == (H, N, N)
    before = numpy(R)
    train_one_step(model, normal(B, S, D), normal(B, S, D, seed=1))
    changes = numpy(R) - before
    assert np.abs(changes[:, :S, :S]).max() > 0
    assert not changes[:, S:].any()
    assert not changes[:, :, S:].any()
    loaded = saved_and_loaded(model, tmp_path)
    (revived,) = tables(loaded, H, N, N)
    assert revived.trainable
    np.testing.assert_array_equal(numpy(revived), numpy(R))


@pytest.mark.parametrize("per_head", [True, False])
def test_10_mixtures_normalise_alphas_and_scale_dot_products(per_head):
    parts = [get("R"), get("V")]
    layer = attention(MixtureSynthesizer(parts, per_head=per_head))
    logits = [weighted_logits(layer, letter, *PAIR) for letter in "RV"]
    alphas = value_of(layer, "alphas")
    assert alphas.shape == ((2, H) if per_head else (2,))
    check(layer, PAIR, reference.mixture_logits(logits, alphas))


def test_13_options_reach_the_layer():
    options = {"kernel_regularizer": "l2", "bias_constraint": "non_neg"}
    options |= {"kernel_initializer": "ones", "bias_initializer": "ones"}
    layer = SyntheticAttention(H, K, synthesizer="R", max_length=N, **options)
    layer(np.zeros((1, 2, D), "float32"))
    for role in ("value", "attention_output"):
        kernel = variable(layer, f"{role}/kernel")
        bias = variable(layer, f"{role}/bias")
        assert (numpy(kernel) == 1).all()
        assert (numpy(bias) == 1).all()
        assert kernel.regularizer is not None
        assert bias.constraint is not None
    assert len(layer.losses) >= 2


def test_15_fixed_random_stays_fixed_when_everything_is_unfrozen():
    layer = attention("Fix")
    model = functional(layer)
    (R,) = tables(layer, H, N, N)
    before = numpy(R)
    model.trainable = False
    for thing in (model, layer, layer):
        thing.trainable = True
        assert not any(w is R for w in layer.trainable_weights)
        assert not any(w is R for w in model.trainable_weights)
        assert any(w is R for w in model.non_trainable_weights)
    train_one_step(model, normal(B, S, D), normal(B, S, D, seed=1))
    np.testing.assert_array_equal(numpy(R), before)
