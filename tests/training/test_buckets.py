"""Batches by length: every example once, few shapes, the same everywhere."""

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_synth.training import LengthBuckets


def examples(real_lengths, width):
    """Rows of ids `row + 1`, as long as asked, and labels that number them."""
    mask = np.arange(width) < np.array(real_lengths)[:, None]
    rows = np.arange(len(real_lengths))
    ids = np.where(mask, rows[:, None] + 1, 0)
    return {"token_ids": ids, "padding_mask": mask.astype("int32")}, rows


@pytest.mark.once
@given(
    real_lengths=st.lists(st.integers(0, 12), min_size=1, max_size=60),
    lengths=st.lists(st.integers(1, 20), max_size=3),
    batch_size=st.integers(1, 9),
    shuffle=st.booleans(),
    drop_remainder=st.booleans(),
)
def test_each_example_comes_once_and_whole(
    real_lengths, lengths, batch_size, shuffle, drop_remainder
):
    features, labels = examples(real_lengths, 12)
    batches = LengthBuckets(
        features, labels, batch_size, lengths, shuffle, drop_remainder
    )
    seen = []
    for i in range(len(batches)):
        batch, rows = batches[i]
        width = batch["token_ids"].shape[1]
        assert width in {*lengths, 12}
        for name, values in batch.items():
            np.testing.assert_array_equal(values, features[name][rows, :width])
            assert not features[name][rows, width:].any()
        seen += [*rows]
    dropped = len(labels) % batch_size if drop_remainder else 0
    assert len(seen) == len({*seen}) == len(labels) - dropped


@pytest.mark.once
def test_all_batches_except_one_have_one_size_and_few_lengths():
    rng = np.random.default_rng(0)
    features, labels = examples(rng.integers(1, 33, 200), 32)
    batches = LengthBuckets(features, labels, 16, [8, 16])
    shapes = [batches[i][0]["token_ids"].shape for i in range(len(batches))]
    assert sorted(n for n, _ in shapes)[1:] == [16] * 12
    assert {length for _, length in shapes} == {8, 16, 32}
    assert shapes[0][1] != shapes[1][1]  # Keras on TensorFlow wants that


@pytest.mark.once
@pytest.mark.parametrize("shuffle", [True, False])
def test_each_example_is_as_often_left_out_whatever_its_length(shuffle):
    features, labels = examples([3] * 128 + [12] * 2, 12)
    batches = LengthBuckets(
        features, labels, 64, [4], shuffle, drop_remainder=True, seed=1
    )
    seen = np.zeros(130, int)
    for batches.epoch in range(800):
        for i in range(2):
            seen[batches[i][1]] += 1
    # 1600 times anyone is left out: 12.3 times each, give or take 3.5.
    left_out = 800 - seen
    assert left_out.sum() == 1600
    assert 0 < left_out.min() <= left_out.max() < 12.3 + 5 * 3.5
    assert all(1 < count < 30 for count in left_out[128:])


def test_fit_accepts_batches_of_several_lengths_and_continues_epochs():
    features, labels = examples([3, 9, 10, 2] * 8, 12)
    inputs = {k: keras.Input((None,), dtype="int32", name=k) for k in features}
    x = keras.layers.Embedding(64, 4)(inputs["token_ids"])
    x = keras.layers.GlobalAveragePooling1D()(x)
    model = keras.Model(inputs, keras.layers.Dense(1)(x))
    model.compile("sgd", "mse")
    batches = LengthBuckets(features, labels / 32, 4, [4], drop_remainder=True)
    model.fit(batches, epochs=2, verbose=0)
    assert batches.epoch >= 2
    in_order = LengthBuckets(features, labels, 5, [4], shuffle=False)
    assert model.predict(in_order, verbose=0).shape == (32, 1)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_fit_accepts_sources_that_are_longer_than_targets(seed):
    source, rows = examples([60] * 8 + [30] * 8 + [6] * 8, 64)
    target, _ = examples([14] * 8 + [12] * 8 + [5] * 8, 16)
    features = {
        f"{side}_padding_mask": x["padding_mask"]
        for side, x in (("encoder", source), ("decoder", target))
    }
    given = {k: keras.Input((None,), name=k) for k in features}
    total = keras.ops.sum(given["encoder_padding_mask"], 1, keepdims=True)
    x = (given["decoder_padding_mask"] * total)[..., None]
    model = keras.Model(given, keras.layers.Dense(24)(x))
    model.compile("sgd", "sparse_categorical_crossentropy")
    labels = np.tile(rows[:, None], (1, 16))
    weight = target["padding_mask"]
    batches = LengthBuckets(
        features, labels, 8, [8, 32], seed=seed, sample_weight=weight
    )
    model.fit(batches, verbose=0)


@pytest.mark.once
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"features": {"token_ids": np.ones((4, 3))}}, "padding_mask"),
        ({"features": {"padding_mask": np.ones((4, 3, 1))}}, "the same shape"),
        ({"labels": np.ones(5)}, "one label per example"),
        ({"features": {"padding_mask": np.eye(4, 3)}}, "only on the right"),
        (
            {"features": {"padding_mask": np.ones((4, 3)) * [1, 0, 1]}},
            "only on the right",
        ),
        ({"batch_size": 0}, "batch_size"),
        ({"lengths": [0]}, "lengths"),
    ],
)
def test_bad_arguments_are_errors(change, words):
    good = {
        "features": {"padding_mask": np.ones((4, 3))},
        "labels": np.ones(4),
        "batch_size": 2,
    }
    with pytest.raises(ValueError, match=words) as error:
        LengthBuckets(**{**good, **change})
    assert "Received" in str(error.value)


def pairs():
    """Sources of 2 to 9 tokens and targets of 1 to 6, in 20 examples."""
    rng = np.random.default_rng(0)
    source, rows = examples(rng.integers(2, 10, 20), 9)
    target, _ = examples(rng.integers(1, 7, 20), 6)
    features = {f"encoder_{k}": x for k, x in source.items()}
    features |= {f"decoder_{k}": x for k, x in target.items()}
    labels = np.tile(rows[:, None], (1, 6)) + np.arange(6) / 10
    return features, labels, target["padding_mask"]


def test_sources_targets_and_labels_are_cut_alike():
    """As preprocessors return them, tensors: batches are arrays."""
    features, labels, weight = pairs()
    tensors = keras.tree.map_structure(
        keras.ops.convert_to_tensor, (features, labels, weight != 0)
    )
    batches = LengthBuckets(*tensors[:2], 4, [3, 5], sample_weight=tensors[2])
    seen, lengths = [], set()
    for batch, y, w in (batches[i] for i in range(len(batches))):
        assert {type(x) for x in (*batch.values(), y, w)} == {np.ndarray}
        length = batch["encoder_token_ids"].shape[1]
        lengths.add(length)
        rows = y[:, 0].astype(int)
        seen += [*rows]
        for name, x in features.items():
            width = min(length, x.shape[1])
            np.testing.assert_array_equal(batch[name], x[rows, :width])
            assert not x[rows, width:].any()  # nothing real is cut off
        np.testing.assert_allclose(y, labels[rows, : y.shape[1]], rtol=1e-6)
        np.testing.assert_array_equal(w, weight[rows, : y.shape[1]])
        assert w.dtype == "float32"
        assert y.shape == w.shape == batch["decoder_token_ids"].shape
    assert sorted(seen) == list(range(20))
    assert lengths == {5, 9}
