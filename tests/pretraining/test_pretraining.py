"""Span corruption and masked tokens: literal cases, counts, and any input."""

import keras
import numpy as np
import pytest
import small_tasks
from assertions import close, equal
from hypothesis import given
from hypothesis import strategies as st

from keras_synth import models, pretraining
from keras_synth.training import LengthBuckets

RNG = np.random.default_rng


# --- span corruption ----------------------------------------------------------


@pytest.mark.once
@given(
    st.integers(2, 300),
    st.floats(0.01, 0.99),
    st.floats(1, 12),
    st.integers(0, 2**31),
)
def test_masks_of_any_length(length, density, mean, seed):
    mask = pretraining.span_mask(length, RNG(seed), density, mean)
    noise = min(max(round(length * density), 1), length - 1)
    spans = min(max(round(noise / mean), 1), length - noise)
    assert len(mask) == length
    assert mask.sum() == noise
    assert not mask[0]
    assert mask[-1]  # parts alternate, and the last one is taken out
    assert (np.diff(mask.astype(int)) == 1).sum() == spans
    tokens = np.arange(length)
    inputs, targets = pretraining.corrupt_spans(tokens, mask, 10_000)
    assert len(inputs) == length - noise + spans
    assert len(targets) == noise + spans
    assert _filled(inputs, targets) == tokens.tolist()


def _filled(inputs, targets):
    """The text that inputs and targets tell together."""
    spans, current = {}, None
    for token in targets:
        if token >= 5_000:
            current = spans.setdefault(token, [])
        else:
            current.append(token)
    text = []
    for token in inputs:
        text += spans[token] if token >= 5_000 else [token]
    return text


@pytest.mark.once
def test_every_cut_is_as_likely():
    """Four tokens that stay in two parts: 1 + 3, 2 + 2 or 3 + 1."""
    rng, seen = RNG(0), []
    for _ in range(3000):
        mask = pretraining.span_mask(6, rng, 2 / 6, 1.0)
        seen.append(int(np.argmax(mask)))
    shares = np.bincount(seen, minlength=4)[1:] / 3000
    close(shares, 1 / 3, atol=0.03)


def spans(**options):
    options = {
        "inputs_length": 32,
        "vocabulary_size": 100,
        "end_token_id": 1,
        "batch_size": 4,
        **options,
    }
    tokens = options.pop("tokens", RNG(0).integers(3, 90, 1000))
    return pretraining.SpanCorruption(tokens, **options)


@pytest.mark.once
@pytest.mark.parametrize(
    ("length", "raw", "targets"), [(512, 568, 114), (128, 141, 29), (32, 34, 8)]
)
def test_lengths_are_t5s(length, raw, targets):
    tokens = np.arange(4 * raw) % 50
    options = {"inputs_length": length, "vocabulary_size": 200}
    features, labels, _ = spans(tokens=tokens, **options)[0]
    assert features["encoder_token_ids"].shape == (4, length)
    assert labels.shape == (4, targets)
    with pytest.raises(ValueError, match=f"needs {4 * raw} tokens"):
        spans(tokens=tokens[:-1], **options)


@pytest.mark.once
def test_batches_of_span_corruption():
    batches = spans()
    features, labels, weights = batches[1]
    raw = 34
    assert len(batches) == 1000 // raw // 4
    inputs = features["encoder_token_ids"]
    assert inputs.shape == (4, 32)
    assert (inputs[:, -1] == 1).all()
    assert (labels[:, -1] == 1).all()
    assert labels.shape == weights.shape
    decoder = features["decoder_token_ids"]
    assert (decoder[:, 0] == 0).all()
    equal(decoder[:, 1:], labels[:, :-1])
    for row, target in zip(inputs, labels, strict=True):
        shift = np.where(row >= 90, row + 5_000, row)[:-1]
        other = np.where(target >= 90, target + 5_000, target)[:-1]
        text = _filled(shift, other)
        assert len(text) == raw
        joined = ",".join(map(str, batches.tokens))
        assert ",".join(map(str, text)) in joined


@pytest.mark.once
@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"inputs_length": 2}, "at least 3 tokens"),
        ({"vocabulary_size": 90}, "are sentinels, which must not occur"),
        ({"tokens": np.arange(3, 50)}, "Received: 47 tokens"),
        ({"tokens": np.zeros(2000)}, "must be a sequence of integers"),
        ({"noise_density": 1.0}, "between 0 and 1"),
        ({"noise_density": "much"}, "between 0 and 1"),
        ({"noise_density": float("nan")}, "between 0 and 1"),
        ({"mean_noise_span_length": 0.0}, "at least 1"),
    ],
)
def test_bad_spans_are_errors(options, match):
    with pytest.raises(ValueError, match=match):
        spans(**options)
    with pytest.raises(ValueError, match=r"at least 2 tokens.*Received: 1"):
        pretraining.span_mask(1, RNG(0))


# --- masked tokens ------------------------------------------------------------

MASK, SPECIAL = 4, [0, 1, 2, 3]


def texts(count=6, length=20):
    ids = RNG(0).integers(5, 50, (count, length))
    ids[:, 0] = 1
    real = np.arange(length) < np.linspace(8, length, count)[:, None]
    return {"token_ids": np.where(real, ids, 0), "padding_mask": real * 1}


def masked(features=None, **options):
    options = {"batch_size": 3, **options}
    return pretraining.MaskedTokens(
        texts() if features is None else features, MASK, 50, SPECIAL, **options
    )


@pytest.mark.once
def test_fractions_of_hidden_tokens():
    ids = RNG(0).integers(5, 1000, (1, 100_000))
    hidden, positions, labels, weights = pretraining.mask_tokens(
        ids, MASK, 1000
    )
    assert positions.shape == (1, 15_000)
    assert weights.all()
    assert (np.diff(positions) > 0).all()
    untouched = np.setdiff1d(np.arange(ids.size), positions)
    equal(hidden[:, untouched], ids[:, untouched])
    chosen = hidden[0, positions[0]]
    equal(labels, ids[:, positions[0]])
    assert abs((chosen == MASK).mean() - 0.8) < 0.01
    assert abs((chosen == labels).mean() - 0.1) < 0.01
    hidden, *_ = pretraining.mask_tokens(
        ids, MASK, 1000, mask_rate=0.0, random_rate=0.0
    )
    equal(hidden, ids)


@pytest.mark.once
def test_hidden_tokens_depend_only_on_text_seed_and_epoch():
    ids = texts()["token_ids"]

    def masked(ids, **options):
        return pretraining.mask_tokens(ids, MASK, 50, SPECIAL, **options)

    expected = masked(ids)
    order = RNG(0).permutation(len(ids))
    for part, whole in zip(masked(ids[order]), expected, strict=True):
        equal(part, whole[order])
    for options in ({"seed": 1}, {"epoch": 1}, {"epoch": [1] * 6}):
        assert (masked(ids, **options)[1] != expected[1]).any()
    some = masked(ids, epoch=[0, 0, 0, 1, 1, 1])
    equal(some[0][:3], expected[0][:3])
    equal(some[0][3:], masked(ids, epoch=1)[0][3:])


@pytest.mark.once
def test_a_text_without_a_maskable_token_has_no_weight():
    ids = np.array([[1, 2, 0, 0], [1, 7, 2, 0]])
    hidden, _, _, weights = pretraining.mask_tokens(ids, MASK, 50, SPECIAL)
    assert weights.tolist() == [[0.0], [1.0]]
    equal(hidden[0], ids[0])
    *_, weights = pretraining.mask_tokens(
        ids, MASK, 50, SPECIAL, selection_rate=0.0
    )
    assert not weights.any()


@pytest.mark.once
def test_batches_of_masked_tokens():
    batches, whole = masked(), texts()
    seen = 0
    for features, labels, weights in (batches[i] for i in range(len(batches))):
        ids, positions = features["token_ids"], features["mask_positions"]
        for row in range(len(ids)):
            chosen = positions[row][weights[row] > 0]
            guess = labels[row][weights[row] > 0]
            original = ids[row].copy()
            original[chosen] = guess
            length = ids.shape[1]
            match = (whole["token_ids"][:, :length] == original).all(axis=1)
            assert match.sum() == 1
            real = int((original > 4).sum())
            assert len(chosen) == max(1, round(0.15 * real))
            assert not np.isin(guess, [*SPECIAL, MASK]).any()
            seen += 1
    assert seen == 6


@pytest.mark.once
def test_rows_to_mask_can_be_lists():
    rows = {"token_ids": [[1, 7, 8, 2], [1, 9, 2, 0]]}
    batches = [
        pretraining.MaskedTokens(x, MASK, 50, SPECIAL, seed=3)[0]
        for x in (rows, {"token_ids": np.array(rows["token_ids"])})
    ]
    equal(*(keras.tree.flatten(batch) for batch in batches))
    with pytest.raises(ValueError, match=r"seed.*non-negative.*Received.*-1"):
        pretraining.MaskedTokens(rows, MASK, 50, seed=-1)


@pytest.mark.once
@pytest.mark.parametrize(
    ("ids", "options", "message"),
    [
        ([1, 7, 2], {}, r"integers \(B, T\).*shape=\(3,\)"),
        ([[1.0, 7.0]], {}, "integers .*float64"),
        ([[1, 7]], {"selection_length": 0}, "selection_length=0"),
        ([[1, 7]], {"vocabulary_size": 2}, "not special.*vocabulary_size=2"),
        ([[1, 7]], {"seed": -1}, "non-negative.*seed=-1"),
        ([[1, 7]], {"epoch": [-1]}, "non-negative.*epoch="),
        ([[1, 7]], {"selection_rate": -0.1}, "between 0 and 1"),
        ([[1, 7]], {"selection_rate": "much"}, "between 0 and 1"),
        ([[1, 7]], {"mask_rate": 1.5}, "between 0 and 1"),
        ([[1, 7]], {"mask_rate": 0.8, "random_rate": 0.3}, "between 0 and 1"),
    ],
)
def test_bad_tokens_to_hide_are_errors(ids, options, message):
    given = {"vocabulary_size": 50, **options}
    with pytest.raises(ValueError, match=message):
        pretraining.mask_tokens(ids, 0, special_token_ids=[1], **given)


def buckets(**options):
    return LengthBuckets(texts(), np.arange(6), batch_size=2, **options)


def arrays(batches):
    return keras.tree.flatten([batches[i] for i in range(len(batches))])


def same(x, y):
    return all(map(np.array_equal, x, y))


@pytest.mark.once
@pytest.mark.parametrize("make", [spans, masked, buckets])
def test_hidden_tokens_depend_only_on_seed_and_epoch(make):
    expected, again = arrays(make()), make()
    assert same(arrays(again), expected)
    assert not same(arrays(make(seed=1)), expected)
    again.on_epoch_end()
    assert not same(arrays(again), expected)
    assert same(arrays(again), arrays(make(epoch=1)))
    # To evaluate, it is the same in each pass.
    still = make(shuffle=False)
    expected = arrays(still)
    still.on_epoch_end()
    assert same(arrays(still), expected)


@pytest.mark.once
def test_to_evaluate_all_windows_count():
    raw = 34
    tokens = np.arange(5 * raw + 3) % 80 + 3
    batches = spans(tokens=tokens, shuffle=False, batch_size=4)
    assert len(batches) == 2
    shapes = [batches[i][1].shape[0] for i in range(2)]
    assert shapes == [4, 1]


# --- rows ---------------------------------------------------------------------


@pytest.mark.once
@given(st.integers(3, 12), st.integers(0, 40), st.integers(1, 3))
def test_rows_contain_all_tokens_in_order_except_the_rest(length, more, least):
    ids = np.arange(10, 10 + least * (length - 2) + more)
    rows = pretraining.pack_tokens(ids, length, 1, 2)
    kept = rows["token_ids"]
    assert kept.shape[1] == length
    assert (kept[:, 0] == 1).all()
    assert (kept[:, -1] == 2).all()
    inner = kept[:, 1:-1].reshape(-1)
    equal(inner, ids[: len(inner)])
    assert len(ids) - len(inner) < length - 2
    assert rows["padding_mask"].all()


@pytest.mark.once
@pytest.mark.parametrize(("tokens", "length"), [(9, 2), (2, 5)])
def test_too_short_rows_and_texts_are_errors(tokens, length):
    with pytest.raises(ValueError, match=f"Received: {tokens} tokens and seq"):
        pretraining.pack_tokens(np.arange(tokens), length, 1, 2)


# --- weights to start from ----------------------------------------------------


def backbone(**changes):
    options = {"vocabulary_size": 20, "max_sequence_length": 8, **changes}
    return small_tasks.backbone("classifier", **options)


def test_all_weights_except_new_ones_are_copied():
    source, target = backbone(), backbone(num_segments=2)
    segments = keras.ops.convert_to_numpy(target.weights[2])
    assert models.copy_weights(source, target) == [
        "segment_embedding/embeddings"
    ]
    copied = {w.path: keras.ops.convert_to_numpy(w) for w in target.weights}
    equal(copied.pop("segment_embedding/embeddings"), segments)
    assert len(copied) == len(source.weights)
    for weight in source.weights:
        equal(copied[weight.path], weight)


def test_copied_weights_are_not_shared():
    """Training the copy leaves the source usable: JAX frees its buffers."""
    source, target = backbone(), backbone()
    models.copy_weights(source, target)
    before = source.get_weights()
    classifier = models.SynthesizerTextClassifier(target, num_classes=2)
    ones = np.ones((4, 8), "int32")
    features = {"token_ids": ones, "padding_mask": ones}
    classifier.fit(features, np.ones(4, "int32"), verbose=0)
    equal(source.weights, before)


@pytest.mark.once
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"vocabulary_size": 21},
            r"token_embedding.* \(20, 8\), not \(21, 8\)",
        ),
        ({"synthesizer": "V"}, r"not there; .*; and 3 more"),
        ({"max_sequence_length": 9}, r"position_embedding"),
    ],
)
def test_weights_of_another_form_are_errors(changes, words):
    source, target = backbone(), backbone(**changes)
    before = target.get_weights()
    with pytest.raises(ValueError, match=words):
        models.copy_weights(source, target)
    equal(before, target.get_weights())
