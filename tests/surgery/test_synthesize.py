"""Heads become tables of what they do on average."""

import keras
import keras_hub
import numpy as np
import pytest
from assertions import close, equal
from backend import numpy

from keras_synth import fold
from keras_synth.analysis.averages import Averages
from keras_synth.surgery import static_heads, synthesize

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
    close(outputs(student, given), outputs(model, given), atol=2e-4)
    tables = {w.path: w.shape for w in student.weights if w.name == "R"}
    assert sorted(shape[0] for shape in tables.values()) == [1, 2]
    assert all(shape[1:] == (N, N) for shape in tables.values())
    equal(model.weights, before)


def test_all_heads_and_none():
    model = bert([(i, j) for i in range(LAYERS) for j in range(H)])
    given = inputs()
    for heads in (0.0, np.float32(1.0), np.int64(LAYERS * H)):
        student = synthesize(model, given, heads=heads)
        close(outputs(student, given), outputs(model, given), atol=2e-4)
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
    close(outputs(factors, given), expected, atol=1e-3)
    factors.save(tmp_path / "student.keras")
    again = keras.saving.load_model(tmp_path / "student.keras")
    close(outputs(again, given), outputs(factors, given))


def test_batches_are_added_up():
    """Also as many batches as the model has inputs."""
    model, given = bert(), inputs(full=False)
    batches = [
        {name: x[at] for name, x in given.items()}
        for at in (slice(0, 2), slice(2, 4), slice(4, B))
    ]
    whole, streamed, listed = (
        synthesize(model, data, heads=0.5)
        for data in (given, iter(batches), batches)
    )
    for other in (streamed, listed):
        close(outputs(other, given), outputs(whole, given))


def test_averages_are_of_pairs_of_real_tokens():
    rng = np.random.default_rng(1)
    weights = rng.random((B, H, T, T))
    lengths = np.array([6, 4, 4, 2, 5])
    real = np.arange(T) < lengths[:, None]
    pairs = (real[:, :, None] & real[:, None])[:, None]
    found = Averages(H, N)
    for at in (slice(0, 3), slice(3, B)):
        found.add_pairs(pairs[at] * weights[at], pairs[at])
    pair = [w[:, 3, 4] for w, n in zip(weights, lengths, strict=True) if n > 4]
    tables = static_heads.table_of(found)
    close(tables[:, 3, 4], np.log(np.mean(pair, 0)))
    # Seen at distance 5 once, by the longest; never at 8.
    close(tables[:, 0, 8], tables[:, 0, 5])


CHOSEN = [(0, 1), (0, 2), (1, 0), (1, 3)]


def test_dense_heads_tell_what_tables_cannot(tmp_path, monkeypatch):
    monkeypatch.setattr(static_heads, "STEPS", 80)
    monkeypatch.setattr(static_heads, "RATE", 0.05)
    model, given = bert(), inputs(number=24)
    expected = outputs(model, given)

    def off(student):
        return np.square(outputs(student, given) - expected).mean()

    keras.utils.set_random_seed(0)
    dense = synthesize(model, given, to="D(hidden_dim=16)", by=CHOSEN)
    assert off(dense) < 0.8 * off(synthesize(model, given, by=CHOSEN))
    dense.save(tmp_path / "student.keras")
    for again in (
        keras.saving.load_model(tmp_path / "student.keras"),
        fold(dense),
    ):
        close(outputs(again, given), outputs(dense, given), atol=1e-4)


@pytest.mark.parametrize("to", ["R", "D"])
def test_padding_can_be_nan(to, monkeypatch):
    monkeypatch.setattr(static_heads, "STEPS", 2)
    x = keras.Input((T, D))
    mask = keras.Input((T,), dtype="bool", name="mask")
    attention = keras.layers.MultiHeadAttention(2, 4)
    y = attention(x, x, query_mask=mask, key_mask=mask, value_mask=mask)
    real = inputs(full=False)["padding_mask"].astype(bool)
    data = np.random.default_rng(0).normal(size=(B, T, D))
    data[~real] = np.nan
    student = synthesize(keras.Model([x, mask], y), [data, real], 1, to)
    assert all(np.isfinite(numpy(w)).all() for w in student.weights)


def static_t5():
    """A T5 whose heads know distances alone: queries are zero."""
    model = keras_hub.models.T5Backbone(30, 1, 2, D, 12)
    rng = np.random.default_rng(3)
    for weight in model.weights:
        value = numpy(weight) + 0.5 * rng.normal(size=weight.shape)
        query = "self_attention/query" in weight.path
        weight.assign(0 * value if query else value)
    return model


@pytest.mark.parametrize("to", ["R", pytest.param("D", marks=pytest.mark.slow)])
def test_heads_of_t5_beside_its_own_positions(to, monkeypatch):
    monkeypatch.setattr(static_heads, "STEPS", 100)
    monkeypatch.setattr(static_heads, "RATE", 0.05)
    model, part = static_t5(), inputs(full=to == "R")
    given = {
        f"{side}_{name}": x
        for side in ("encoder", "decoder")
        for name, x in part.items()
        if name != "segment_ids"
    }
    keras.utils.set_random_seed(0)
    student = synthesize(model, given, 1.0, to=to, max_length=N)
    assert not [
        w.path
        for w in student.weights
        if "self" in w.path and "query" in w.path
    ]
    real = part["padding_mask"].astype(bool)
    for side in ("encoder", "decoder"):
        name = f"{side}_sequence_output"
        close(
            numpy(student(given)[name])[real],
            numpy(model(given)[name])[real],
            atol=1e-4 if to == "R" else 0.2,
        )


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"heads": True}, "fraction.*heads=True"),
        ({"heads": 1.5}, "fraction from 0.0 to 1.0.*8.*1.5"),
        ({"heads": 9}, "number up to 8.*9"),
        ({"by": "luck"}, "input_dependence.*'luck'"),
        ({"by": [(0, 4)]}, "\\[4, 4\\] heads.*\\(0, 4\\)"),
        ({"by": [(2, 0)]}, "layers 0 to 1.*\\(2, 0\\)"),
        ({"to": "FD"}, "`to` must be.*'FD'"),
        ({"max_length": 5}, "5 positions.*6 tokens"),
        ({"max_length": 10}, "9 positions.*10"),
        ({"data": []}, "no batch"),
        ({"data": ["a text"]}, "preprocessor.*batch of str"),
        ({"data": {"token_ids": [[1]]}}, "padding_mask.*\\['token_ids'\\]"),
        (
            {"data": {k: x[0] for k, x in inputs().items()}},
            "\\(samples, tokens\\)",
        ),
        ({"by": [3]}, "pairs.*Received: by=\\[3\\]"),
        ({"by": 3}, "pairs.*Received: by=3"),
        ({"by": [(0, 1.0)]}, "pairs.*\\(0, 1.0\\)"),
        ({"to": "D(shared_heads=True)"}, "shared_heads"),
    ],
)
def test_bad_input_is_refused(options, match):
    with pytest.raises(ValueError, match=f"(?s){match}"):
        synthesize(bert(), **{"data": inputs(), **options})
