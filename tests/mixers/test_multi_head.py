"""The base of mixers with queries, keys and values."""

import keras
import numpy as np
import pytest
from arrays import normal, padding
from backend import gradients, numpy, slow_but_on
from keras import ops

from keras_synth import mixers
from keras_synth.attend import attend
from keras_synth.logits import Logits

H, K, D, N, T = 2, 4, 8, 9, 7


@keras.saving.register_keras_serializable(package="test")
class Softmax(mixers.MultiHeadMixer):
    """Scaled dot-product attention, by the base alone."""

    supports_attention_mask = True
    supports_attention_bias = True
    supports_attention_scores = True

    def attend(
        self,
        queries,
        keys,
        values,
        mask,
        *,
        bias=None,
        training=None,
        return_weights=False,
    ):
        logits = Logits(queries * self.key_dim**-0.5, keys)
        if bias is not None:
            logits = logits + Logits(bias=bias)
        return attend(
            logits,
            values,
            mask._replace(queries=None),
            return_weights=return_weights,
        )


@keras.saving.register_keras_serializable(package="test")
class Mean(mixers.MultiHeadMixer):
    """The mean of all values: no causal form, no logits, no weights."""

    supports_causal_mask = False

    def attend(self, queries, keys, values, mask, *, training=None):
        mean = ops.mean(values, axis=1, keepdims=True)
        return ops.broadcast_to(mean, (*queries.shape[:3], values.shape[-1]))


def pair(**options):
    """The base and V, with the same weights."""
    mixer = Softmax(H, K, **options)
    attention = mixers.SyntheticAttention(H, K, synthesizer="V", **options)
    mixer.build((None, None, D))
    attention.build((None, None, D))
    rng = np.random.default_rng(1)
    values = [rng.normal(size=w.shape) for w in mixer.get_weights()]
    mixer.set_weights(values)
    by_name = {w.path.split("/", 1)[1]: w for w in attention.weights}
    for weight in mixer.weights:
        name = weight.path.split("/", 1)[1]
        inner = f"synthesizer/{name}"
        by_name.get(name, by_name.get(inner)).assign(weight)
    return mixer, attention


pairs = np.random.default_rng(2).random((3, 1, T, T)) < 0.5
CALLS = {
    "plain": {},
    "causal": {"use_causal_mask": True},
    "padding": {"value_mask": padding(T, 4, 0, size=T)},
    "query mask": {"query_mask": padding(T, 4, 0, size=T)},
    "mask": {"mask": padding(T, 4, 1, size=T), "use_causal_mask": True},
    "pairs": {"attention_mask": pairs, "key_mask": padding(T, 3, 1, size=T)},
    "bias": {"attention_bias": normal(1, H, T, T, seed=4)},
}


@pytest.mark.parametrize("case", CALLS)
def test_it_is_attention(case):
    mixer, attention = pair(value_dim=3)
    x, arguments = normal(3, T, D), CALLS[case]
    np.testing.assert_allclose(
        numpy(mixer(x, **arguments)),
        numpy(attention(x, **arguments)),
        atol=1e-5,
    )
    found = mixer(x, **arguments, return_attention_scores=True)
    expected = attention(x, **arguments, return_attention_scores=True)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(numpy(mine), numpy(theirs), atol=1e-5)


def test_it_attends_to_another_sequence():
    mixer, attention = pair()
    x, value, key = normal(3, 5, D), normal(3, T, D), normal(3, T, D, seed=1)
    mask = {
        "query_mask": padding(5, 2, 0, size=5),
        "value_mask": padding(T, 4, 1, size=T),
    }
    np.testing.assert_allclose(
        numpy(mixer(x, value, key, **mask)),
        numpy(attention(x, value, key, **mask)),
        atol=1e-5,
    )


@pytest.mark.parametrize("sizes", [(0, T, T), (3, 0, T), (3, T, 0)])
def test_there_may_be_nothing_to_attend_to(sizes):
    batch, length, source = sizes
    mixer, attention = pair()
    x, value = normal(batch, length, D), normal(batch, source, D)
    found = mixer(x, value, return_attention_scores=True)
    expected = attention(x, value, return_attention_scores=True)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(numpy(mine), numpy(theirs))


def test_caches_are_attention_s():
    mixer, attention = pair()
    x, source = normal(3, T, D), normal(3, N, D, seed=1)
    real = padding(T, 4, 2, size=T)
    for arguments in ({}, {"use_causal_mask": False}):
        caches = [layer.make_cache(3, N) for layer in (mixer, attention)]
        for start, end in ((0, 3), (3, 4), (4, T)):
            outputs = []
            for i, layer in enumerate((mixer, attention)):
                output, caches[i] = layer.call_with_cache(
                    x[:, start:end],
                    caches[i],
                    start,
                    value_mask=real[:, start:end],
                    **arguments,
                )
                outputs.append(numpy(output))
            np.testing.assert_allclose(*outputs, atol=1e-5)
    found, expected = (
        layer.call_with_cache(
            x, layer.remember(source), value_mask=padding(N, 4, 0, size=N)
        )[0]
        for layer in (mixer, attention)
    )
    np.testing.assert_allclose(numpy(found), numpy(expected), atol=1e-5)


@slow_but_on("torch")
@pytest.mark.parametrize("poison", [1e9, np.inf, np.nan])
def test_padding_has_no_influence(poison):
    mixer, _ = pair()
    mask = padding(T, 4, 1, size=T)
    x = np.where(mask[..., None], normal(3, T, D), np.float32(poison))
    clean = np.where(mask[..., None], x, 0)

    def loss(x):
        return ops.sum(ops.square(mixer(x, mask=ops.convert_to_tensor(mask))))

    found, expected = (numpy(mixer(y, mask=mask))[mask] for y in (x, clean))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.isfinite(gradients(loss, x)[0]).all()


def test_what_a_subclass_lacks_is_refused():
    mixer, x = Mean(H, K), normal(3, T, D)
    assert mixer(x, normal(3, 5, D)).shape == (3, T, D)
    for arguments in (
        {"attention_mask": pairs[:, 0]},
        {"attention_bias": normal(1, H, T, T)},
        {"return_attention_scores": True},
        {"use_causal_mask": True},
    ):
        with pytest.raises(ValueError, match=r"cannot honour.*Received"):
            mixer(x, **arguments)
    cache = mixer.remember(x)
    assert mixer.make_cache(3, T).shape == cache.shape
    with pytest.raises(NotImplementedError, match="cannot decode"):
        mixer.call_with_cache(x, cache, 0)
    found, _ = mixer.call_with_cache(x, cache)  # another sequence
    np.testing.assert_allclose(numpy(found), numpy(mixer(x)), atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [{"num_heads": 0}, {"key_dim": 0}, {"value_dim": 0}, {"dropout": 1.0}],
)
def test_bad_sizes_are_refused(options):
    with pytest.raises(ValueError, match="Received"):
        Softmax(**{"num_heads": H, "key_dim": K, **options})


def test_bad_tensors_are_refused():
    mixer = Softmax(H, K)
    with pytest.raises(ValueError, match=r"floating-point.*Received"):
        mixer(np.ones((3, T, D), "int32"))
    with pytest.raises(ValueError, match="Received"):
        mixer(normal(3, T, 2, D))
    mixer(normal(3, T, D))
    other = ops.zeros((3, N, H, K))
    with pytest.raises(ValueError, match=r"make_cache.*Received"):
        mixer.call_with_cache(normal(3, T, D), other, 0)


def test_seeds_config_and_lengths_yet_unknown(tmp_path):
    mixers_ = [Softmax(H, K, seed=1, dropout=0.1) for _ in range(2)]
    for mixer in mixers_:
        mixer.build((None, None, D))
    weights = [mixer.get_weights() for mixer in mixers_]
    for first, second in zip(*weights, strict=True):
        np.testing.assert_array_equal(first, second)
    assert np.abs(weights[0][0] - weights[0][2]).max() > 1e-3
    inputs = keras.Input((None, D))
    model = keras.Model(inputs, mixers_[0](inputs))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    x = normal(3, T, D)
    np.testing.assert_allclose(
        numpy(loaded(x)), numpy(mixers_[1](x)), atol=1e-6
    )


def test_quantized_and_with_lora(tmp_path):
    inputs = keras.Input((None, D))
    model = keras.Model(inputs, Softmax(H, K)(inputs))
    x = normal(3, T, D)
    plain = numpy(model(x))
    model.quantize("int8")
    np.testing.assert_allclose(numpy(model(x)), plain, atol=0.05)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(numpy(loaded(x)), numpy(model(x)), atol=1e-6)
    mixer = Softmax(H, K)
    mixer(x)
    mixer.query.enable_lora(2)
    assert len(mixer.query.trainable_weights) == 3
