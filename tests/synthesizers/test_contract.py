"""What every synthesizer and mixture promises, asked of all of them."""

import inspect

import keras
import numpy as np
import pytest
from arrays import normal
from attending import able
from backend import build_optimizer, gradients, numpy, slow_but_on
from cases import (
    CASES,
    D,
    H,
    K,
    N,
    T,
    each_case,
    each_case_or_kind,
    each_kind,
)
from keras import ops
from keras.src import testing  # private: wrapped in `layer_test` alone

from keras_synth.attend import attend
from keras_synth.layers import SynthesizerEncoder, SyntheticAttention
from keras_synth.masks import AttentionMask, causal


def layer_test(*args, **kwargs):
    """Keras' own checks of a layer: config, build, dtypes, fit, saving."""
    testing.TestCase().run_layer_test(*args, **kwargs)


def attention(case, **options):
    """A layer whose weights are all different from their initial values."""
    layer = SyntheticAttention(H, K, synthesizer=CASES[case](), **options)
    layer.build((None, T, D))
    for i, weight in enumerate(layer.weights):
        weight.assign(0.5 * normal(*weight.shape, seed=i))
    return layer


def mask_with_gaps():
    mask = np.ones((3, T), bool)
    mask[1, 4:] = False
    mask[2, ::3] = False
    return mask


@each_kind
def test_keras_own_layer_test_passes(case):
    synthesizer = CASES[case]()
    synthesizer.build((None, T, D))
    layer_test(
        SyntheticAttention,
        init_kwargs={
            "num_heads": H,
            "key_dim": K,
            "synthesizer": keras.saving.serialize_keras_object(CASES[case]()),
            "dropout": 0.1,
        },
        input_shape={"query_shape": (2, T, D), "value_shape": (2, T, D)},
        expected_output_shape=(2, T, D),
        expected_num_trainable_weights=4 + len(synthesizer.trainable_weights),
        expected_num_non_trainable_weights=int(case == "Fix"),
        expected_num_seed_generators=1,
        expected_num_losses=0,
        supports_masking=True,
        run_training_check=False,  # it cannot call with two tensors
        run_mixed_precision_check=True,
    )


@each_case_or_kind
def test_all_routes_agree(case):
    layer = attention(case)
    x = ops.convert_to_tensor(normal(3, T, D))
    synthesizer = layer.synthesizer
    logits = synthesizer(x, keys=synthesizer.project_keys(x))
    values = layer.value(x)
    keys = ops.convert_to_tensor(mask_with_gaps())
    for mask in (
        AttentionMask(),
        AttentionMask(keys=keys),
        AttentionMask(pairs=causal(T, T)),
        AttentionMask(keys=keys, pairs=causal(T, T)),
    ):
        explicit = numpy(attend(logits, values, mask, route="explicit"))
        for route in able(logits, values, mask):
            context = numpy(attend(logits, values, mask, route=route))
            np.testing.assert_allclose(context, explicit, atol=2e-6)


@each_case
@pytest.mark.parametrize(
    "poison",
    [
        *(pytest.param(x, marks=slow_but_on("torch")) for x in (1e4, np.inf)),
        np.nan,
    ],
)
def test_padding_has_no_influence(case, poison):
    layer, mask = attention(case), mask_with_gaps()
    x = normal(3, T, D)
    poisoned = np.where(mask[..., None], x, np.float32(poison))
    clean, dirty = (numpy(layer(y, value_mask=mask)) for y in (x, poisoned))
    np.testing.assert_allclose(clean[mask], dirty[mask], atol=1e-6)


@each_kind
def test_poisoned_padding_leaves_gradients_finite(case):
    layer, mask = attention(case), mask_with_gaps()
    poisoned = np.where(mask[..., None], normal(3, T, D), np.float32(np.nan))

    def loss(x):
        real = ops.cast(mask[..., None], "float32")
        return ops.sum(layer(x, value_mask=mask) ** 2 * real)

    (of_x,) = gradients(loss, poisoned)
    assert np.isfinite(of_x).all()


def test_one_head_of_constant_keys_is_the_formula():
    """TensorFlow's kernel for this product writes beyond its end."""
    layer = SyntheticAttention(1, K, synthesizer="D", max_length=N)
    x = normal(3, T, D)
    layer(x)
    for _ in range(20):
        found, scores = layer(x), layer(x, return_attention_scores=True)[1]
        context = ops.einsum("bhts,bshv->bthv", scores, layer.value(x))
        expected = numpy(layer.attention_output(context))
        np.testing.assert_allclose(numpy(found), expected, atol=1e-5)


@each_case
def test_future_tokens_do_not_change_the_past(case):
    layer = attention(case)
    x = normal(2, T, D)
    other = x.copy()
    other[:, 4:] = normal(2, T - 4, D, seed=1)
    first, second = (
        numpy(layer(tokens, use_causal_mask=True)) for tokens in (x, other)
    )
    np.testing.assert_allclose(first[:, :4], second[:, :4], atol=1e-6)
    assert np.abs(first[:, 4:] - second[:, 4:]).max() > 1e-3


@each_case_or_kind
def test_samples_of_a_batch_do_not_meet(case):
    layer, mask = attention(case), mask_with_gaps()
    x = normal(3, T, D)
    together = numpy(layer(x, value_mask=mask))
    apart = [
        numpy(layer(x[i : i + 1], value_mask=mask[i : i + 1])) for i in range(3)
    ]
    np.testing.assert_allclose(together, np.concatenate(apart), atol=1e-5)


@each_case_or_kind
def test_a_start_position_gives_the_rows_from_there(case):
    """Room for cached decoding: rows of later tokens, one at a time."""
    layer = attention(case)
    synthesizer = layer.synthesizer
    x = ops.convert_to_tensor(normal(2, T, D))
    keys = synthesizer.project_keys(x)
    rows = numpy(synthesizer(x, keys=keys).materialize())
    for start in (0, 3, T - 1):
        for position in (start, ops.convert_to_tensor(start)):
            logits = synthesizer(
                x[:, start : start + 1], keys=keys, start=position, length=T
            )
            row = numpy(logits.materialize())
            expected = np.broadcast_to(
                rows[:, :, start : start + 1], (*row.shape[:2], 1, T)
            )
            np.testing.assert_allclose(
                np.broadcast_to(row, expected.shape), expected, atol=1e-5
            )


@each_case
def test_keys_are_as_wide_as_promised(case):
    synthesizer = attention(case).synthesizer
    keys = synthesizer.project_keys(ops.convert_to_tensor(normal(2, T, D)))
    groups = synthesizer.head_groups()
    keys = keys if len(groups) > 1 else (keys,)
    for group, own in zip(groups, keys, strict=True):
        if group.key_dim == 0:
            assert own is None
        else:
            assert own.shape == (2, T, group.num_heads, group.key_dim)


@each_kind
def test_a_model_survives_saving_with_unknown_lengths(case, tmp_path):
    tokens = keras.Input((None, D))
    mask = keras.Input((None,), dtype="bool")
    block = SynthesizerEncoder(16, H, synthesizer=CASES[case]())
    model = keras.Model([tokens, mask], block(tokens, padding_mask=mask))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    inputs = [normal(3, T, D), mask_with_gaps()]
    np.testing.assert_allclose(
        model.predict(inputs, verbose=0),
        loaded.predict(inputs, verbose=0),
        atol=1e-6,
    )
    assert len(loaded.weights) == len(model.weights)


@each_case_or_kind
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_stays_close(case, policy):
    x, mask = normal(3, T, D), mask_with_gaps()
    full = attention(case)
    keras.config.set_dtype_policy(policy)
    half = attention(case)
    half.set_weights(full.get_weights())
    for causal_mask in (False, True):
        exact, rough = (
            numpy(layer(x, value_mask=mask, use_causal_mask=causal_mask))
            for layer in (full, half)
        )
        scale = np.abs(exact).max()
        tolerance = 0.01 if policy == "mixed_float16" else 0.05
        np.testing.assert_allclose(rough, exact, atol=tolerance * scale)


@each_kind
@pytest.mark.parametrize(
    "policy",
    [
        "float16",
        *(
            pytest.param(name, marks=slow_but_on("torch"))
            for name in ("bfloat16", "float64")
        ),
    ],
)
def test_pure_policies_give_finite_outputs(case, policy):
    keras.config.set_dtype_policy(policy)
    layer = SyntheticAttention(H, K, synthesizer=CASES[case]())
    for options in ({}, {"use_causal_mask": True}):
        y = layer(normal(3, T, D), value_mask=mask_with_gaps(), **options)
        found = keras.backend.standardize_dtype(y.dtype)
        # JAX has no float64 by default.
        assert found in (policy, "float32" if policy == "float64" else policy)
        assert np.isfinite(numpy(y)).all()


@each_kind
def test_gradients_reach_all_weights_in_a_compiled_step(case):
    tokens = keras.Input((T, D))
    mask = keras.Input((T,), dtype="bool")
    block = SynthesizerEncoder(16, H, synthesizer=CASES[case]())
    model = keras.Model([tokens, mask], block(tokens, padding_mask=mask))
    # torch.compile is a matter of its own: test_torch_compile.
    jit = keras.backend.backend() != "torch"
    model.compile(keras.optimizers.SGD(1.0), "mse", jit_compile=jit)
    build_optimizer(model)
    before = [numpy(w.value) for w in model.trainable_weights]
    data = [normal(3, T, D), mask_with_gaps()]
    for _ in range(2):
        model.train_on_batch(data, normal(3, T, D, seed=1))
    for weight, old in zip(model.trainable_weights, before, strict=True):
        new = numpy(weight.value)
        assert np.isfinite(new).all(), weight.path
        # The softmax does not see a constant added to a whole row.
        if not weight.path.endswith("key/bias"):
            assert np.abs(new - old).max() > 1e-6, weight.path


@pytest.mark.parametrize("case", ["V", "D", "FD", "R+V", "D+FD+V"])
def test_use_bias_false_leaves_no_bias_in_named_synthesizers(case):
    layer = SyntheticAttention(
        H, K, synthesizer=case, max_length=N, use_bias=False
    )
    layer.build((None, T, D))
    assert not [w.path for w in layer.weights if "b" in w.name[:2]]


def test_attention_takes_the_arguments_of_multi_head_attention():
    mine = inspect.signature(SyntheticAttention.call).parameters
    theirs = inspect.signature(keras.layers.MultiHeadAttention.call).parameters
    assert set(theirs) <= set(mine)


@pytest.mark.parametrize("max_length", [0, -3, 1.5])
@pytest.mark.parametrize("name", ["V", "R", "D+V"])
def test_a_max_length_that_is_no_length_is_refused(name, max_length):
    with pytest.raises(ValueError, match="`max_length` must be a positive"):
        SyntheticAttention(H, K, synthesizer=name, max_length=max_length)
