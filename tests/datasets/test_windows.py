"""Windows of a token stream: every token once, labels one on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_synth.datasets import TokenWindows

pytestmark = pytest.mark.once  # nothing here depends on the backend


@given(
    count=st.integers(2, 200),
    length=st.integers(1, 12),
    batch_size=st.integers(1, 5),
)
@settings(deadline=None, max_examples=100)
def test_side_by_side_they_predict_every_token_but_the_first_once(
    count, length, batch_size
):
    tokens = np.arange(1, count + 1)
    windows = TokenWindows(tokens, length, batch_size, shuffle=False)
    predicted, read = [], []
    for i in range(len(windows)):
        features, labels, weight = windows[i]
        ids, mask = features["token_ids"], features["padding_mask"]
        assert ids.shape == labels.shape == (batch_size, length)
        np.testing.assert_array_equal(labels[weight > 0], ids[weight > 0] + 1)
        predicted += [*labels[weight > 0]]
        read += [*ids[mask > 0]]
    assert predicted == [*range(2, count + 1)]
    assert read[: count - 1] == [*range(1, count)]


@given(count=st.integers(60, 300), epoch=st.integers(0, 3))
@settings(deadline=None, max_examples=50)
def test_to_train_on_they_are_whole_and_never_overlap(count, epoch):
    tokens = np.arange(count)
    windows = TokenWindows(tokens, 5, 4, seed=1, epoch=epoch)
    assert len(windows.batch_lengths(epoch)) == len(windows)
    seen = []
    for i in range(len(windows)):
        features, labels, weight = windows[i]
        np.testing.assert_array_equal(labels, features["token_ids"] + 1)
        assert weight.all()
        assert features["padding_mask"].all()
        seen += [*features["token_ids"].ravel()]
    assert len(seen) == len({*seen}) > count - 5 - 20


def test_epochs_and_seeds_differ_and_repeat():
    def first(**options):
        return [*TokenWindows(np.arange(99), 5, 4, **options)[0][1].ravel()]

    assert first(seed=1) == first(seed=1) != first(seed=2)
    assert first(seed=1, epoch=1) != first(seed=1)
    windows = TokenWindows(np.arange(99), 5, 4, seed=1)
    windows.on_epoch_end()
    assert [*windows[0][1].ravel()] == first(seed=1, epoch=1)


def test_an_epoch_is_permuted_once(monkeypatch):
    windows = TokenWindows(np.arange(999), 5, 4)
    drawn = []
    original = np.random.default_rng

    def counted(seed):
        drawn.append(seed)
        return original(seed)

    monkeypatch.setattr(np.random, "default_rng", counted)
    for epoch in (0, 1, 0):
        windows.epoch = epoch
        for i in range(len(windows)):
            windows[i]
    assert drawn == [(0, 0), (0, 1), (0, 0)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tokens": np.arange(20)}, "at least 25"),
        ({"tokens": np.arange(100).reshape(10, 10)}, "array"),
        ({"length": 0}, "length"),
        ({"batch_size": 0}, "batch_size"),
    ],
)
def test_bad_arguments_are_refused(change, words):
    good = {"tokens": np.arange(100), "length": 5, "batch_size": 4}
    with pytest.raises(ValueError, match=words) as error:
        TokenWindows(**{**good, **change})
    assert "Received" in str(error.value)
