"""Series of unequal lengths, and windows of one: nothing is lost or mixed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_synth import datasets

pytestmark = pytest.mark.once  # nothing here depends on the backend


@given(
    lengths=st.lists(st.integers(2, 9), min_size=1, max_size=5),
    features=st.sampled_from([None, 1, 3]),
    spare=st.integers(0, 3),
)
def test_real_steps_come_first_and_the_rest_is_zero(lengths, features, spare):
    rng = np.random.default_rng(0)
    shape = () if features is None else (features,)
    series = [rng.normal(size=(n, *shape)) for n in lengths]
    values, mask = datasets.pad_series(series, length=max(lengths) + spare)
    assert values.shape == (len(lengths), max(lengths) + spare, *shape)
    assert values.dtype == "float32"
    assert mask.sum(axis=1).tolist() == lengths
    for row, real, x in zip(values, mask, series, strict=True):
        np.testing.assert_array_equal(row[real], x.astype("float32"))
        assert not row[~real].any()
        assert real[: len(x)].all()


def test_the_longest_series_determines_the_length():
    assert datasets.pad_series([[1, 2], [0.5]])[0].dtype == "float32"
    values, mask = datasets.pad_series([[1, 2, 3], [4, 5]])
    assert values.tolist() == [[1, 2, 3], [4, 5, 0]]
    assert values.dtype == "int32"
    assert mask.tolist() == [[True] * 3, [True, True, False]]


def test_no_series_are_an_empty_batch():
    values, mask = datasets.pad_series([])
    assert len(values) == len(mask) == 0
    values, mask = datasets.pad_series([np.zeros((0, 3))] * 2, length=4)
    assert values.shape == (2, 4, 3)
    assert not mask.any()


@given(
    steps=st.integers(2, 40),
    length=st.integers(1, 8),
    horizon=st.integers(1, 4),
    stride=st.integers(1, 5),
)
def test_windows_read_steps_in_a_row_and_forecast_the_next(
    steps, length, horizon, stride
):
    series = np.arange(steps)
    if steps < length + horizon:
        with pytest.raises(ValueError, match=f"Received: {steps} steps"):
            datasets.series_windows(series, length, horizon, stride)
        return
    inputs, targets = datasets.series_windows(series, length, horizon, stride)
    count = (steps - length - horizon) // stride + 1
    assert inputs.shape == (count, length)
    assert targets.shape == (count, horizon)
    for i, row in enumerate(np.concatenate([inputs, targets], axis=1)):
        first = i * stride
        assert row.tolist() == [*range(first, first + length + horizon)]


def test_windows_keep_the_features_of_a_step():
    series = np.arange(20.0).reshape(10, 2)
    inputs, targets = datasets.series_windows(series, 4, 2)
    assert inputs.shape == (5, 4, 2)
    assert targets.shape == (5, 2, 2)
    assert targets.dtype == "float32"
    np.testing.assert_array_equal(targets[:, 0], series[4:9])


@pytest.mark.parametrize(
    ("series", "options", "message"),
    [
        ([np.ones((5, 2))], {"length": 4}, "at most 4 steps"),
        ([np.ones((5, 2)), np.ones((5, 3))], {}, "same features.*5, 2.*5, 3"),
        ([np.array([1.0, np.nan])], {}, "must contain only finite.*: 1"),
        ([["a", "b"]], {}, "must be an array .* of numbers"),
        ([np.ones((2, 2, 2))], {}, r"shape \(2, 2, 2\)"),
        ([[1_700_000_000_000, 3]], {}, "32 bits.*: 3 to 1700000000000"),
    ],
)
def test_other_arrays_than_series_are_errors(series, options, message):
    with pytest.raises(ValueError, match=message):
        datasets.pad_series(series, **options)
