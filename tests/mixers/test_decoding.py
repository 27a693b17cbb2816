"""Decoding with caches equals a call with the whole sequence."""

import keras
import numpy as np
import pytest
from arrays import normal
from assertions import close
from backend import numpy
from cached import decoded, in_parts
from cases import H, K, N, T, randomized
from keras import ops

from keras_synth import mixers, synthesizers
from keras_synth._backend.checks import may_be_equal
from keras_synth.layers import SynthesizerDecoder

LONGFORMER = "longformer(window=2, global_tokens=4)"
D = H * K  # so that the block's heads have K features


def tokens(length=N, batch=3, seed=0):
    return ops.convert_to_tensor(normal(batch, length, D, seed=seed))


# Shapes of what is remembered: dot products remember keys, all heads values.
CACHES = {
    **dict.fromkeys(["D", "FD", "R", "FR", "R+D"], ((3, N, H, K),)),
    **dict.fromkeys(["V", "R+V", "D + V(rotary=True)"], ((3, N, H, 2 * K),)),
    "V+D+V": ((3, N, H, 3 * K),),
    "R + V(num_key_value_heads=1)": ((3, N, 1, 2 * K),),
    "attention(R, num_key_value_heads=1)": ((3, N, 1, K),),
    "heads(1 * V + 1 * mixture(R + D))": ((3, N, 1, 2 * K), (3, N, 1, K)),
    "local_dense(window=2)": ((3, 2, H, K),),
    "attention(V, pattern='local(window=2)')": ((3, 2, H, 2 * K),),
    "light_conv": ((3, 6, D),),
    "dynamic_conv(width=1)": ((3, 1, D),),
    "pooling(size=4)": ((3, 3, D),),
    "linear": ((3, H, K, K + 1),),
    "performer(features=6)": ((3, H, 6, K + 1),),
}


@pytest.mark.parametrize("name", CACHES)
def test_a_cache_has_room_for_what_is_remembered_only(name):
    layer = mixers.get(name, H, K, N)
    layer.build((None, None, D))

    def shapes(cache):
        return tuple(tuple(x.shape) for x in keras.tree.flatten(cache))

    cache = layer.make_cache(3, N)
    if isinstance(cache, dict):  # with counts of tokens
        assert CACHES[name][0] in shapes(cache)
    else:
        assert shapes(cache) == CACHES[name] == shapes(layer.remember(tokens()))


def test_cross_attention_works_with_any_synthesizer():
    """Also for sources that are longer than the decoder's sequence."""
    block = SynthesizerDecoder(
        16,
        H,
        synthesizer="V",
        max_length=3,
        cross_synthesizer="R",
        max_source_length=N,
    )
    block(tokens(3), tokens(N))
    assert block.cross_attention.synthesizer.max_length == N
    assert block.cross_attention.cache_dim == K  # only values
    again = SynthesizerDecoder.from_config(block.get_config())
    again(tokens(3), tokens(N))
    again.set_weights(block.get_weights())
    close(again(tokens(3), tokens(N)), block(tokens(3), tokens(N)), atol=0)
    with pytest.raises(ValueError, match="9"):
        block(tokens(3), tokens(N + 1))
    made = synthesizers.get("D+V", H, K, N)  # an object has its own length
    block = SynthesizerDecoder(
        16, H, synthesizer="R", max_length=3, cross_synthesizer=made
    )
    assert block(tokens(3), tokens(N)).shape == (3, 3, D)
    with pytest.raises(ValueError, match=r"max_source_length.*Received"):
        SynthesizerDecoder(16, H, synthesizer="V", max_source_length=0)
    with pytest.raises(ValueError, match="Unknown synthesizer 'Q'"):
        SynthesizerDecoder(16, H, synthesizer="V", cross_synthesizer="Q")


def test_caches_and_masks_that_do_not_fit_are_errors():
    x, source = tokens(), tokens(T)
    block = SynthesizerDecoder(16, H, synthesizer="R", max_length=N)
    block(x, source)
    with pytest.raises(ValueError, match=r"`source_length`.*Received"):
        block.make_caches(3, N)
    own, cross = block.make_caches(3, N, T)
    for caches in (
        {"self_attention_cache": own},
        {"cross_attention_cache": cross},
    ):
        with pytest.raises(ValueError, match=r"both caches.*NoneType"):
            block(x, source, **caches)
    with pytest.raises(ValueError, match=r"with cross-attention.*of NoneType"):
        block(x)
    with pytest.raises(ValueError, match=r"None.*length.*Received: a cache"):
        block.attention.call_with_cache(x, cross[:, :1])
    block, _ = block_calls(cross=False)
    own, _ = block.make_caches(3, N)
    with pytest.raises(
        ValueError, match=r"\(3, 2\), or of the cache.*Received"
    ):
        block(
            tokens(2),
            decoder_padding_mask=np.ones((3, 5), bool),
            self_attention_cache=own,
            self_attention_cache_update_index=0,
        )
    for index in (None, -1):
        with pytest.raises(
            ValueError, match=rf"(?i)position.*Received.*{index}"
        ):
            block(
                tokens(2),
                self_attention_cache=own,
                self_attention_cache_update_index=index,
            )


def test_a_cache_may_be_shorter_than_the_global_tokens():
    layer, x = mixers.get(LONGFORMER, H, K), tokens(3)
    expected = numpy(layer(x, use_causal_mask=True))
    for mask in (None, np.ones((3, 3), bool)):
        found, _ = layer.call_with_cache(
            x, layer.make_cache(3, 3), 0, value_mask=mask
        )
        close(found, expected)


def block_calls(cross):
    """A decoder block, and the tensors and masks of its encoder's side."""
    block = SynthesizerDecoder(
        16, H, synthesizer="D+V", max_length=N, cross_synthesizer="R"
    )
    encoder = {"encoder_sequence": tokens(T, seed=2)} if cross else {}
    block(tokens(), **encoder)
    return randomized(block, 0.5), encoder


@pytest.mark.each_backend
@pytest.mark.parametrize("cross", [False, True])
def test_masks_count_with_a_cache_as_without(cross):
    """And biases. Left padding: later steps mask all tokens of the cache."""
    block, encoder = block_calls(cross)
    x = numpy(tokens())
    real = np.arange(N) >= [[0], [2], [3]]
    x[~real] = np.nan
    pairs = np.random.default_rng(3).random((3, N, N)) < 0.8
    pairs |= np.eye(N, dtype=bool)
    given = {
        "decoder_attention_mask": pairs,
        "decoder_attention_bias": normal(1, H, N, N, seed=3),
    }
    if cross:
        of_source = np.random.default_rng(4).random((3, N, T)) < 0.7
        given["encoder_attention_mask"] = of_source
        given["encoder_attention_bias"] = normal(1, H, N, T, seed=4)

    def whole(**given):
        return numpy(block(x, decoder_padding_mask=real, **given, **encoder))

    expected = whole(**given)
    for name in given:
        fewer = {k: v for k, v in given.items() if k != name}
        assert np.abs(whole(**fewer) - expected)[real].max() > 1e-3

    def of_part(start, end):
        part = {k: v[..., start:end, :] for k, v in given.items()}
        padding = real[:, :4] if start == 0 else real
        return {"decoder_padding_mask": padding, **part}

    source = encoder.get("encoder_sequence")
    found, _ = in_parts(block, x, range(4, N + 1), N, source, of_part)
    close(found[real], expected[real])


@pytest.mark.parametrize(
    "name",
    [
        "local_dense(window=3), pattern='stride(stride=2)'",
        "local_dense(window=3), pattern='global(tokens=2)'",
        "local_dense(window=3), pattern='local(window=2)'",
        "V(rotary=True), pattern='local(window=2)'",
    ],
)
def test_a_cache_of_the_last_tokens_keeps_to_the_pattern(name):
    layer = randomized(mixers.get(f"attention({name})", H, K, N))
    x = tokens()
    found, _ = decoded(layer, x, (3, 4, 5, 8, N), N)
    close(found, layer(x, use_causal_mask=True))


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("scores", [False, True])
@pytest.mark.parametrize("cached", [False, True])
def test_symbolic_calls_return_the_same_as_eager_calls(cross, scores, cached):
    block, encoder = block_calls(cross)
    own, other = block.make_caches(3, N, 2)
    options = {"return_attention_scores": scores}
    inputs = {"decoder_sequence": tokens(5), **encoder}
    if cached:
        inputs["self_attention_cache"] = own
        options["self_attention_cache_update_index"] = 0
        if cross:
            inputs["cross_attention_cache"] = other
            options["cross_attention_cache_update_index"] = 0
    if cached and scores:
        with pytest.raises(ValueError, match="not available with caches"):
            block(**inputs, **options)
        return
    symbols = {
        name: keras.Input(batch_shape=tuple(x.shape), name=name)
        for name, x in inputs.items()
    }
    eager = block(**inputs, **options)
    symbolic = block(**symbols, **options)
    assert isinstance(eager, tuple) == isinstance(symbolic, tuple)
    if not isinstance(eager, tuple):
        eager, symbolic = [eager], [symbolic]
    assert len(eager) == len(symbolic) == 1 + (scores or cached) * (1 + cross)
    for one, other in zip(eager, symbolic, strict=True):
        assert may_be_equal(one.shape, other.shape)
        assert keras.backend.standardize_dtype(one.dtype) == other.dtype
    if cached:
        model = keras.Model(symbols, symbolic)
        close(model(inputs), eager)
    if scores:
        output, own, *_ = eager
        close(output, block(**inputs))
        assert not np.triu(numpy(own)[0, 0], 1).any()
        for weights in eager[1:]:
            close(numpy(weights).sum(-1), 1)


@pytest.mark.each_backend
@pytest.mark.parametrize("kind", [np.int64, np.array])
def test_positions_of_numpy_are_checked_like_others(kind):
    layer = mixers.get("R+V", H, K, N)
    layer.build((None, None, D))
    cache, x = layer.make_cache(3, 4), tokens(3)
    with pytest.raises(ValueError, match=r"room for 4 tokens.*start=2"):
        layer.call_with_cache(x, cache, kind(2))
    with pytest.raises(ValueError, match=r"at least 0\. Received: -1"):
        layer.call_with_cache(x, cache, kind(-1))
    found, expected = (
        layer.call_with_cache(x, cache, start)[0] for start in (kind(1), 1)
    )
    close(found, expected)
