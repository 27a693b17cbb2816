"""Sparse mixers: names, random blocks, equal layers, refusals."""

import keras
import numpy as np
import pytest
from arrays import normal, padding
from assertions import close
from backend import numpy, only_on
from cases import randomized

from keras_synth import mixers
from keras_synth.mixers import patterns
from keras_synth.mixers.patterns import (
    BlockWindow,
    GlobalTokens,
    RandomBlocks,
    Stride,
    Window,
)

B, H, K, D, N = 3, 2, 4, 8, 40


def made(name, **options):
    return randomized(mixers.get(name, H, K, N, **options), 0.4)


def sparse(pattern, max_length=N):
    return mixers.SyntheticAttention(
        H, K, synthesizer="V", pattern=pattern, max_length=max_length
    )


# --- patterns -----------------------------------------------------------------


def test_patterns_are_values():
    assert Window(2) | Stride(3) == Window(2) | Stride(3)
    assert (Window(2) | Stride(3)) | Window(2) == Window(2) | Stride(3)
    assert len({Window(2), Window(2), Window(3)}) == 2
    with pytest.raises(AttributeError):
        Window(2).size = 3


def test_random_blocks_depend_on_nothing_but_seed_and_longest_length():
    one, same, other = (RandomBlocks(2, 4, s, N) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.table, same.table)
    assert (one.table != other.table).any()
    assert one.table.shape == (N // 4, 2)
    assert all(len({*row}) == 2 for row in one.table.tolist())
    mixer = sparse(RandomBlocks(2, 4, 1))
    assert mixer.pattern == one


def test_random_blocks_of_big_bird_are_not_seen_anyway():
    mixer = made("big_bird(block_size=2, random_blocks=2, random_seed=5)")
    *near, drawn = mixer.pattern.patterns
    rows, blocks = np.nonzero(drawn.table >= 0)[0], drawn.table
    blocks = blocks[blocks >= 0]
    assert len(rows) > N // 2
    for pattern in near:
        assert not pattern.allows(2 * rows, 2 * blocks).any()


def test_a_drawn_seed_of_random_blocks_is_stored():
    one, other = (mixers.get("big_bird(block_size=2)", H, K, N) for _ in "ab")
    again = type(one).from_config(one.get_config())
    assert one.pattern == again.pattern
    tables = [m.pattern.patterns[-1].table for m in (one, again, other)]
    np.testing.assert_array_equal(*tables[:2])
    assert (tables[2] != tables[0]).any()


# --- equal layers -------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [*("strided(stride=4)", "big_bird(block_size=2)", "linear", "performer")],
)
def test_a_cache_can_be_filled_without_a_causal_mask(name):
    mixer, x = made(name), normal(B, 19, D)
    _, cache = mixer.call_with_cache(x[:, :3], mixer.make_cache(B, 24), 0)
    found, _ = mixer.call_with_cache(x[:, 3:], cache, 3, use_causal_mask=False)
    close(found, numpy(mixer(x))[:, 3:])


@pytest.mark.parametrize(
    "name",
    [
        *("local(window=30)", "local(window=2)", "strided(stride=3)"),
        *("longformer(window=2)", "big_bird(block_size=2)"),
    ],
)
def test_a_long_sequence_is_a_short_one_with_padding(name):
    """Several blocks of queries, the last one not full."""
    mixer = mixers.get(name, H, K, 300, seed=1)
    randomized(mixer, 0.4)
    x = normal(1, 300, D)
    for length in (150, 299):
        real = padding(length, size=300)
        found = numpy(mixer(x, value_mask=real))[:, :length]
        expected = numpy(mixer(x[:, :length]))
        np.testing.assert_allclose(found, expected, atol=1e-5)


# --- refusals -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Window(2, dilation=0), "positive integer"),
        (lambda: GlobalTokens(1.5), "positive integer"),
        (lambda: BlockWindow(2, 4), "odd"),
        (lambda: RandomBlocks(1, 0, 1), "positive integer"),
        (lambda: RandomBlocks(1, 4, None), "non-negative integer as seed"),
        (lambda: RandomBlocks(1, 4, -1), "non-negative integer as seed"),
        (lambda: RandomBlocks(9, 4, 1, N - 8), "Draw fewer"),
        (lambda: patterns.Union(()), "at least one"),
        (lambda: patterns.Union((Window(2), 3)), "A pattern must be"),
        (
            lambda: sparse(RandomBlocks(1, 4, 1), None),
            "max_length",
        ),
        (
            lambda: sparse(RandomBlocks(2, 4, 1, N), 64),
            "Leave out the pattern's",
        ),
        (lambda: sparse(GlobalTokens(9), 8), "beyond"),
    ],
)
def test_impossible_patterns_are_errors(make, words):
    with pytest.raises(ValueError, match=rf"{words}.*Received"):
        make()


def test_a_bias_of_a_cache_without_places_is_an_error():
    local, x = made("local(window=3)"), normal(B, 5, D)
    bias = np.zeros((1, 1, 5, N), "float32")
    with pytest.raises(ValueError, match=r"attention_bias.*Received"):
        local.call_with_cache(x, local.make_cache(B, N), 0, attention_bias=bias)


@pytest.mark.each_backend
@only_on("tensorflow", "it has the format")
def test_tensorflow_saves_an_array_of_pairs(tmp_path):
    import tensorflow as tf

    x = keras.Input((4, D))
    layer = mixers.SyntheticAttention(
        H, K, synthesizer="V", pattern=np.eye(4) > 0
    )
    model = keras.Model(x, layer(x))
    tf.saved_model.save(model, tmp_path)
    given = normal(2, 4, D)
    serve = tf.saved_model.load(tmp_path).signatures["serving_default"]
    (found,) = serve(tf.constant(given)).values()
    close(found, model(given))
