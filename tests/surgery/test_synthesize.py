"""Heads become tables of what they do on average."""

import keras
import keras_hub
import numpy as np
import pytest
from backend import numpy

from keras_synth.analysis.averages import Averages
from keras_synth.surgery import synthesize

LAYERS, H, D, N, B, T = 2, 4, 8, 9, 5, 6


def bert(static=()):
    """A backbone; heads `(block, head)` that look at nothing are uniform."""
    model = keras_hub.models.BertBackbone(
        30, LAYERS, H, D, 12, max_sequence_length=N
    )
    rng = np.random.default_rng(3)
    for weight in model.weights:
        value = numpy(weight) + 0.5 * rng.normal(size=weight.shape)
        for block, head in static:
            if f"layer_{block}/self_attention_layer/query" in weight.path:
                value[..., head, :] = 0
        weight.assign(value)
    return model


def inputs(full=True, number=B):
    lengths = np.full(number, T) if full else np.arange(2, 2 + number)
    real = np.arange(T) < lengths[:, None]
    return {
        "token_ids": np.random.default_rng(0).integers(1, 30, (number, T)),
        "segment_ids": np.zeros((number, T), "int32"),
        "padding_mask": real.astype("int32"),
    }


def outputs(model, given):
    found = model(given)
    return numpy(found["sequence_output"] if isinstance(found, dict) else found)


STATIC = [(0, 2), (1, 0), (1, 3)]


@pytest.mark.parametrize("by", ["input_dependence", STATIC])
def test_heads_that_ignore_their_input_are_found_and_kept(by):
    model, given = bert(STATIC), inputs()
    before = [numpy(w) for w in model.weights]
    student = synthesize(model, given, heads=3, by=by)
    np.testing.assert_allclose(
        outputs(student, given), outputs(model, given), atol=2e-4
    )
    tables = {w.path: w.shape for w in student.weights if w.name == "R"}
    assert sorted(shape[0] for shape in tables.values()) == [1, 2]
    assert all(shape[1:] == (N, N) for shape in tables.values())
    for weight, value in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(numpy(weight), value)


def test_all_heads_and_none():
    model = bert([(i, j) for i in range(LAYERS) for j in range(H)])
    given = inputs()
    for heads in (0.0, 1.0):
        student = synthesize(model, given, heads=heads)
        np.testing.assert_allclose(
            outputs(student, given), outputs(model, given), atol=2e-4
        )
        queries = [w for w in student.weights if "/query/" in w.path]
        assert bool(queries) == (heads == 0.0)


def test_a_table_of_full_rank_is_the_table(tmp_path):
    model, given = bert(), inputs()
    chosen = [(0, 1), (1, 2)]
    tables = synthesize(model, given, by=chosen, max_length=T)
    factors = synthesize(
        model, given, by=chosen, to=f"FR(rank={T})", max_length=T
    )
    expected = outputs(tables, given)
    np.testing.assert_allclose(outputs(factors, given), expected, atol=1e-3)
    factors.save(tmp_path / "student.keras")
    again = keras.saving.load_model(tmp_path / "student.keras")
    np.testing.assert_allclose(
        outputs(again, given), outputs(factors, given), atol=1e-5
    )


def test_batches_are_added_up():
    model, given = bert(), inputs(full=False)
    batches = [
        {name: x[at] for name, x in given.items()}
        for at in (slice(0, 2), slice(2, B))
    ]
    whole, streamed = (
        synthesize(model, data, heads=0.5) for data in (given, iter(batches))
    )
    np.testing.assert_allclose(
        outputs(streamed, given), outputs(whole, given), atol=1e-5
    )


def test_averages_are_of_pairs_of_real_tokens():
    rng = np.random.default_rng(1)
    weights = rng.random((B, H, T, T))
    lengths = np.array([6, 4, 4, 2, 5])
    real = np.arange(T) < lengths[:, None]
    found = Averages(H, N)
    for at in (slice(0, 3), slice(3, B)):
        found.add(weights[at], real[at])
    pair = [w[:, 3, 4] for w, n in zip(weights, lengths, strict=True) if n > 4]
    tables = found.tables()
    np.testing.assert_allclose(
        tables[:, 3, 4], np.log(np.mean(pair, 0)), atol=1e-5
    )
    # Seen at distance 5 once, by the longest; never at 8.
    np.testing.assert_allclose(tables[:, 0, 8], tables[:, 0, 5], atol=1e-5)
    left = total = 0.0
    for i in range(T):
        for j in range(T):
            own = np.array(
                [
                    w[:, i, j]
                    for w, n in zip(weights, lengths, strict=True)
                    if n > max(i, j)
                ]
            )
            if len(own):
                left += ((own - own.mean(0)) ** 2).sum(0)
                total += (own**2).sum(0)
    np.testing.assert_allclose(
        found.input_dependence(), left / total, atol=1e-9
    )


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"heads": 1.5}, "share from 0.0 to 1.0.*8.*1.5"),
        ({"heads": 9}, "number up to 8.*9"),
        ({"by": "luck"}, "by='luck'"),
        ({"by": [(0, 4)]}, "heads 0 to 3.*\\(0, 4\\)"),
        ({"by": [(2, 0)]}, "blocks 0 to 1.*\\(2, 0\\)"),
        ({"to": "D"}, "`to` must be.*'D'"),
        ({"max_length": 5}, "5 positions.*6 tokens"),
        ({"max_length": 10}, "9 positions.*10"),
        ({"data": []}, "no batch"),
        ({"data": ["a text"]}, "preprocessor.*str"),
    ],
)
def test_bad_input_is_refused(options, match):
    with pytest.raises(ValueError, match=f"(?s){match}"):
        synthesize(bert(), **{"data": inputs(), **options})
