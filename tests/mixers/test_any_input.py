"""Whatever comes in: an output of the right shape, or a ValueError."""

import numpy as np
import pytest
from backend import numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_synth import mixers

LONGEST = 4
KINDS = ["V", "D", "FD", "R", "FR", "R+V"]
FLOATS = ["float32", "float16", "float64"]

sizes = st.integers(0, 5)
shapes = st.lists(sizes, min_size=1, max_size=4).map(tuple)
masks = st.sampled_from(["bool", "int32", "float32"])


@st.composite
def tensors(draw):
    """Query, value and key, most of which fit each other."""
    axes = draw(st.integers(1, 2))
    batch, features = draw(st.integers(0, 3)), draw(st.integers(1, 3))

    def one():
        shape = (batch, *(draw(sizes) for _ in range(axes)), features)
        if draw(st.integers(0, 9)) == 0:
            shape = draw(shapes)
        dtype = draw(st.sampled_from([*FLOATS, *FLOATS, "int32", "bool"]))
        return np.ones(shape, dtype)

    query = one()
    value = (
        draw(st.sampled_from([None, query])) if draw(st.booleans()) else one()
    )
    key = None if value is None or draw(st.booleans()) else one()
    return query, value, key


@st.composite
def call_masks(draw, query, value):
    """Masks, most of which fit."""
    value = query if value is None else value
    lengths = query.shape[1:-1], value.shape[1:-1]
    fitting = {
        "query_mask": query.shape[:-1],
        "value_mask": value.shape[:-1],
        "key_mask": value.shape[:-1],
        "attention_mask": (query.shape[0], *lengths[0], *lengths[1]),
        "attention_bias": (1, 2, *lengths[0], *lengths[1]),
    }
    made = {}
    for name, shape in fitting.items():
        choice = draw(st.integers(0, 5))
        if choice < 3:
            continue
        if choice == 5:
            shape = draw(shapes)
        dtype = "float32" if name == "attention_bias" else draw(masks)
        bits = np.random.default_rng(draw(st.integers(0, 9))).random(shape)
        made[name] = (bits < 0.6).astype(dtype)
    return made


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=settings.default.max_examples // 8)
@given(data=st.data())
def test_any_input_has_an_output_or_raises_a_value_error(kind, data):
    query, value, key = data.draw(tensors())
    given_masks = data.draw(call_masks(query, value))
    axes = data.draw(st.sampled_from([None, None, 1, 2, (2, 1)]))
    causal = data.draw(st.booleans())
    scores = data.draw(st.booleans())
    layer = mixers.get(kind, 2, 2, LONGEST, attention_axes=axes)
    try:
        found = layer(
            query,
            value,
            key,
            **given_masks,
            use_causal_mask=causal,
            return_attention_scores=scores,
        )
    except ValueError:
        return
    output, weights = found if scores else (found, None)
    assert tuple(output.shape) == query.shape
    assert np.isfinite(numpy(output)).all()
    if scores:
        attended = len(query.shape) - 2 if axes is None else np.size(axes)
        totals = numpy(weights).sum(axis=tuple(range(-attended, 0)))
        assert (np.isclose(totals, 1, atol=1e-5) | (totals == 0)).all()
