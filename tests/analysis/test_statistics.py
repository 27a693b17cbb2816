"""Statistics over a data set, compared with NumPy loops."""

import keras
import numpy as np
import pytest
from assertions import close, equal
from attending_models import B, H, T, made

from keras_synth import analysis
from keras_synth.analysis import AttentionStatistics


def weights(rng, batch, rows, columns):
    made = rng.random((batch, H, rows, columns)) ** 3
    return made / made.sum(-1, keepdims=True)


def batches():
    """Three batches, of other lengths, with padding and forbidden pairs."""
    rng = np.random.default_rng(0)
    for batch, rows, columns in ((3, 4, 6), (2, 5, 4), (1, 2, 6)):
        queries = np.arange(rows) < rng.integers(1, rows + 1, batch)[:, None]
        keys = np.arange(columns) < rng.integers(2, columns + 1, batch)[:, None]
        keys[0] = keys[0, ::-1]  # padding may be on the left
        allowed = rng.random((batch, 1, rows, columns)) < 0.8
        yield (weights(rng, batch, rows, columns), queries, keys, allowed)


def fed():
    statistics = AttentionStatistics(H)
    for batch in batches():
        statistics.add(*batch)
    return statistics


def pairs():
    """Yields `(sample, head, i, j, weight)` for pairs that count."""
    number = 0
    for own, queries, keys, allowed in batches():
        for b, h, i, j in np.ndindex(own.shape):
            if queries[b, i] and keys[b, j] and allowed[b, 0, i, j]:
                yield number + b, h, i, j, own[b, h, i, j]
        number += len(own)


def sums(value):
    found = np.zeros(H)
    for b, h, i, j, w in pairs():
        found[h] += value(b, h, i, j, w)
    return found


def test_shares_and_distances():
    statistics = fed()
    total = sums(lambda b, h, i, j, w: w)
    distance = sums(lambda b, h, i, j, w: w * abs(i - j))
    near = sums(lambda b, h, i, j, w: w * (abs(i - j) <= 1))
    close(statistics.mean_distance(), distance / total, atol=0, rtol=1e-5)
    close(statistics.window_share(1), near / total, atol=0, rtol=1e-5)
    firsts = [
        row.tolist().index(True) for batch in batches() for row in batch[2]
    ]
    first = sums(lambda b, h, i, j, w: w * (j == firsts[b]))
    close(statistics.first_share(), first / total, atol=0, rtol=1e-5)


def test_a_summary_has_means_over_heads():
    statistics = fed()
    summary = statistics.summary(1)
    near = statistics.window_share(1).mean()
    assert summary.pop("window_share") == pytest.approx(near)
    assert len(summary) == 4
    for name, mean in summary.items():
        assert mean == pytest.approx(getattr(statistics, name)().mean())


def test_entropy_is_that_of_rows():
    rows = {}
    for b, h, i, _, w in pairs():
        rows.setdefault((b, h, i), []).append(w)
    entropies = [[] for _ in range(H)]
    for (_, h, _), row in rows.items():
        shares = np.array(row) / np.sum(row)
        entropies[h].append(-(shares * np.log(shares)).sum())
    close(fed().entropy(), [np.mean(x) for x in entropies], atol=0, rtol=1e-5)


def test_histogram_counts_pairs():
    edges, counts = fed().histogram()
    assert (edges[0], edges[-1]) == (0, 1)
    for head in range(H):
        own = np.float32([w for _, h, _, _, w in pairs() if h == head])
        equal(counts[head], np.histogram(own, edges)[0])


def test_averages_profile_and_input_dependence():
    statistics, places = fed(), {}
    for _, h, i, j, w in pairs():
        places.setdefault((h, i, j), []).append(w)
    averages = np.zeros((H, 5, 6))
    left = total = np.zeros(H)
    for (h, i, j), own in places.items():
        averages[h, i, j] = np.mean(own)
        one = np.arange(H) == h
        left = left + one * ((np.array(own) - np.mean(own)) ** 2).sum()
        total = total + one * np.square(own).sum()
    close(statistics.averages(), averages, atol=1e-6)
    close(statistics.input_dependence(), left / total)
    dead = analysis.AttentionStatistics(num_heads=2)
    dead.add(np.zeros((3, 2, 4, 4)))
    equal(dead.input_dependence(), [0, 0])
    by_distance = {}
    for (h, i, j), own in places.items():
        by_distance.setdefault(j - i, [[] for _ in range(H)])[h] += own
    distances, means = statistics.distance_profile()
    assert distances.tolist() == sorted(by_distance)
    for k, distance in enumerate(distances):
        expected = [np.mean(own) for own in by_distance[distance]]
        close(means[:, k], expected, atol=0, rtol=1e-5)


def test_heads_can_have_different_masks():
    rng = np.random.default_rng(0)
    own = weights(rng, B, T, T)
    allowed = rng.random((B, H, T, T)) < 0.5
    together = AttentionStatistics(H)
    together.add(own, attention_mask=allowed)
    for head in range(H):
        alone, at = AttentionStatistics(1), slice(head, head + 1)
        alone.add(own[:, at], attention_mask=allowed[:, at])
        for name in ("entropy", "input_dependence", "averages"):
            close(
                getattr(together, name)()[at], getattr(alone, name)(), atol=1e-6
            )


def numbers(statistics):
    return {
        (name, number): getattr(own, number)()
        for name, own in statistics.items()
        for number in ("entropy", "mean_distance", "first_share", "averages")
    }


def cut(inputs, b):
    """A sample without padding."""
    given = {**inputs}
    if "token_ids" in inputs:
        given.setdefault("padding_mask", inputs["token_ids"] != 0)
    found = analysis.sample_of(given, b)
    return {k: found[k] for k in inputs}


@pytest.mark.parametrize(
    "name", ["R+V", "causal task", "seq2seq", "GPT-2", "functional"]
)
def test_padding_is_left_out(name):
    model, inputs = made(name)
    padded = analysis.attention_statistics(model, inputs)
    bare = analysis.attention_statistics(
        model, [cut(inputs, b) for b in range(B)]
    )
    bare = numbers(bare)
    for key, number in numbers(padded).items():
        short = bare[key]
        whole = number[tuple(slice(n) for n in short.shape)]
        close(whole, short, err_msg=str(key))
        assert np.isclose(number.sum(), whole.sum(), atol=1e-5)


def test_padding_is_left_out_of_layers_that_are_named():
    model, inputs = made("seq2seq")
    every = analysis.attention_statistics(model, inputs)
    name = next(x for x in every if "decoder" in x and "cross" in x)
    (alone,) = analysis.attention_statistics(
        model, inputs, layers=[name]
    ).values()
    close(alone.entropy(), every[name].entropy())


@pytest.mark.parametrize(
    "kind", ["dictionary", "pairs", "one by one", "lists", "list"]
)
def test_a_data_set_is_streamed(kind):
    model, inputs = made("R+V")
    whole = analysis.attention_statistics(model, inputs)
    data = {
        "dictionary": [inputs],
        "pairs": [(inputs, np.zeros(B))],
        "one by one": iter([inputs, inputs]),
        "lists": {name: x.tolist() for name, x in inputs.items()},
        "list": [*inputs.values()],
    }[kind]
    if kind == "list":
        model = keras.Model([model.input[x] for x in inputs], model.output)
    streamed = analysis.attention_statistics(model, data)
    close(numbers(streamed), numbers(whole), atol=1e-6)


def test_tables_do_not_depend_on_the_input_and_parts_are_separate():
    model, inputs = made("R+V")
    inputs["padding_mask"][:] = 1
    found = analysis.attention_statistics(model, inputs, parts=True)
    path = "encoder_layer_0/self_attention"
    table, compared = (f"{path}/synthesizer/part_{k}" for k in (0, 1))
    assert found[table].input_dependence().max() < 1e-6
    assert found[compared].input_dependence().min() > 1e-3


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda m, x: analysis.attention_statistics(m, []), "no batch in list"),
        (lambda m, x: analysis.attention_statistics(m, {}), "no batch in dict"),
        (
            lambda m, x: analysis.attention_statistics(m, x, layers="layer"),
            "encoder_layer_0.*'layer'",
        ),
        (
            lambda m, x: AttentionStatistics(2).add(np.ones((1, 3, 2, 2))),
            "2 heads.*\\(1, 3, 2, 2\\)",
        ),
        (
            lambda m, x: AttentionStatistics(1).add(
                np.ones((1, 1, 2, 2)), query_mask=np.ones((1, 3))
            ),
            "query_mask.*\\(1, 2\\).*\\(1, 3\\)",
        ),
    ],
)
def test_bad_input_is_an_error(call, match):
    model, inputs = made("R+V")
    with pytest.raises(ValueError, match=f"(?s){match}"):
        call(model, inputs)
