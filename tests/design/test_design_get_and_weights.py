"""Names, `get()`, the weights that each synthesizer holds, and errors."""

import json

import keras
import numpy as np
import pytest
import reference
from design_helpers import (
    CASES,
    CLASSES,
    PAIR,
    PURE,
    B,
    D,
    H,
    K,
    N,
    S,
    T,
    attention,
    count,
    get,
    synthesizer_weights,
    to_numpy,
    value_error_naming,
    variable,
)

from keras_synth.layers import (
    SynthesizerDecoder,
    SynthesizerEncoder,
    SyntheticAttention,
)
from keras_synth.synthesizers import (
    DenseSynthesizer,
    DotProductSynthesizer,
    FactorizedDenseSynthesizer,
    MixtureSynthesizer,
    RandomSynthesizer,
)


def test_public_names_exist_and_are_registered_under_keras_synth():
    public = [SyntheticAttention, SynthesizerEncoder, SynthesizerDecoder]
    public += [*CLASSES.values(), MixtureSynthesizer]
    for cls in public:
        name = keras.saving.get_registered_name(cls)
        assert name == f"keras_synth>{cls.__name__}"


@pytest.mark.parametrize("case", [*PURE, "R+V"])
def test_get_accepts_instances_and_config_dicts_and_makes_fresh_objects(case):
    original = get(case)
    assert get(case) is not original
    assert get(original).get_config() == original.get_config()
    config = json.dumps(keras.saving.serialize_keras_object(original))
    config = json.loads(config)
    revived = get(config)
    assert get(config) is not revived
    assert type(revived) is type(original)
    assert revived.get_config() == original.get_config()


def test_the_synthesizer_is_keyword_only():
    with pytest.raises(TypeError):
        SyntheticAttention(H, K, "V")


# Weights: names, shapes, counts.


@pytest.mark.parametrize("case", ["r + V", "dense + dense", "R+D+V"])
def test_mixtures_hold_alphas_for_each_part_that_start_at_zero(case):
    mixture = get(case)
    assert type(mixture) is MixtureSynthesizer
    layer = SyntheticAttention(H, K, synthesizer=mixture)
    layer(np.zeros((1, 2, D), "float32"))
    alphas = variable(layer, "alphas")
    assert alphas.name == "alphas"
    assert alphas.trainable
    expected = np.zeros((len(case.split("+")), H))
    np.testing.assert_array_equal(to_numpy(alphas), expected)


def parameters(letter):
    """Per layer, without biases: the design's table, times the heads."""
    a, b = reference.default_factors(N)
    per_head = {
        "V": 2 * D * K,
        "D": D * K + K * N,
        "R": N * N,
        "Fix": N * N,
        "FD": D * K + K * (a + b),
        "FR": 2 * N * 8,
    }
    return H * per_head[letter]


@pytest.mark.parametrize("case", CASES)
def test_parameter_counts_are_those_of_the_table(case):
    layer = attention(case, use_bias=False)
    parts = [part.strip() for part in case.split("+")]
    letters = [part.upper() if part.islower() else part for part in parts]
    expected = sum(parameters(letter) for letter in letters)
    if len(letters) > 1:
        expected += len(letters) * H
    assert count(synthesizer_weights(layer)) == expected
    assert count(layer.weights) == expected + 2 * D * H * K
    trainable = 0 if case == "Fix" else expected
    assert count(layer.trainable_weights) == trainable + 2 * D * H * K


def test_linear_and_shared_forms_hold_fewer_weights():
    plain = {"use_bias": False}
    dense = DenseSynthesizer(H, K, N, **plain)
    parts = [dense, DotProductSynthesizer(H, K, **plain)]
    for synthesizer, expected in (
        (DenseSynthesizer(H, None, N, **plain), H * D * N),
        (
            FactorizedDenseSynthesizer(H, None, N, factors=(3, 5), **plain),
            H * D * (3 + 5),
        ),
        (
            DenseSynthesizer(H, K, N, shared_heads=True, **plain),
            D * H * K + K * N,
        ),
        (
            MixtureSynthesizer(parts, share_queries=True),
            H * K * N + 2 * D * H * K + 2 * H,
        ),
    ):
        layer = attention(synthesizer)
        assert count(synthesizer_weights(layer)) == expected


# Errors.


def test_parts_and_layers_must_agree_on_heads():
    parts = [RandomSynthesizer(H, N), RandomSynthesizer(H + 1, N)]
    with value_error_naming(H, H + 1):
        MixtureSynthesizer(parts)
    with value_error_naming(H, H + 1):
        SyntheticAttention(H, K, synthesizer=parts[1])


@pytest.mark.parametrize("case", ["V", "R"])
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("attention_mask", (B, T, S + 1)),
        ("attention_mask", (B, H + 1, T, S)),
        ("attention_mask", (B, S)),
        ("attention_bias", (B, H, T, S + 1)),
    ],
)
def test_masks_of_wrong_shape_are_value_errors(case, name, shape):
    layer = attention(case)
    mask = np.ones(shape, bool)
    if name == "attention_bias":
        mask = mask.astype("float32")
    with value_error_naming(name):
        layer(*PAIR, **{name: mask})


@pytest.mark.parametrize("case", ["V", "R"])
def test_inputs_of_wrong_shape_or_dtype_are_value_errors(case):
    layer = attention(case)
    x, source = PAIR
    for inputs in ([x[0]], [x[None]], [x, source, source[:, 1:]]):
        with value_error_naming("shape"):
            layer(*inputs)
    integers = np.ones((B, T, D), "int32")
    for inputs in ([integers], [x, integers], [x, x, integers]):
        with value_error_naming("int32"):
            layer(*inputs)
