"""The initial weights of the parts of a mixture."""

import keras
import numpy as np
import pytest
from backend import numpy
from design_helpers import (
    PAIR,
    D,
    H,
    K,
    S,
    call,
    close,
    get,
    scores_of,
    value_of,
    variables,
)

from keras_synth.layers import SyntheticAttention
from keras_synth.synthesizers import (
    DotProductSynthesizer,
    MixtureSynthesizer,
    RandomSynthesizer,
)


def fresh_mixture(logits, per_head=True):
    keras.utils.set_random_seed(0)
    mixture = MixtureSynthesizer(
        [get("R"), get("V")],
        per_head=per_head,
        alphas_initializer=keras.initializers.Constant(logits),
    )
    layer = SyntheticAttention(H, K, synthesizer=mixture)
    layer.build((None, S, D), (None, S, D))
    return layer


@pytest.mark.parametrize(
    ("logits", "per_head", "expected"),
    [
        ([[0.0], [2.0]], True, np.repeat([[0.0], [2.0]], H, axis=1)),
        ([0.0, 2.0], False, [0.0, 2.0]),
        (3.0, True, np.full((2, H), 3.0)),
    ],
    ids=["per head", "per layer", "a number"],
)
def test_initial_alphas_are_those_of_the_initializer(
    logits, per_head, expected
):
    layer = fresh_mixture(logits, per_head)
    close(value_of(layer, "alphas"), np.array(expected))


@pytest.mark.parametrize("favoured", ["R", "V"])
def test_a_new_mixture_can_start_as_one_of_its_parts(favoured):
    logits = [[30.0], [-30.0]] if favoured == "R" else [[-30.0], [30.0]]
    mixed = fresh_mixture(logits)
    pure = SyntheticAttention(H, K, synthesizer=get(favoured))
    call(pure, *PAIR)
    for weight in pure.weights:
        name = "/".join(weight.path.split("/")[-2:])
        ending = "R" if weight.name == "R" else name
        (source,) = variables(mixed, ending)
        weight.assign(source)
    close(scores_of(mixed, *PAIR), scores_of(pure, *PAIR))
    close(call(mixed, *PAIR), call(pure, *PAIR))


def test_without_alphas_a_mixture_is_the_sum_of_its_parts():
    layer = SyntheticAttention(
        2,
        4,
        synthesizer=MixtureSynthesizer(
            [RandomSynthesizer(2, 8, seed=1), DotProductSynthesizer(2, 4)],
            alphas_initializer=None,
        ),
    )
    x = np.random.default_rng(0).normal(size=(2, 8, 6)).astype("float32")
    layer(x)
    mixture = layer.synthesizer
    assert mixture.alphas is None
    keys = mixture.project_keys(x)
    found = mixture(x, keys, length=8).materialize()
    table, pairs = mixture.synthesizers
    expected = table(x, length=8).materialize()
    expected = expected + pairs(x, keys, length=8).materialize()
    np.testing.assert_allclose(numpy(found), numpy(expected), atol=1e-6)
    again = type(mixture).from_config(mixture.get_config())
    assert again.alphas_initializer is None
