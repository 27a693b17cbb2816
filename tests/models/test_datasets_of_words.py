"""`tf.data` datasets of words and labels for `SynthesizerTokenClassifier`."""

import numpy as np
import pytest
from backend import slow_but_on
from every_task import TAGS, WORDS, assert_same, record, task

tf = pytest.importorskip("tensorflow")

WEIGHTS = [1.0, 0.5] * 4
NUMBERS = [[("bad", "good").index(tag) for tag in row] for row in TAGS]


def ragged(*parts, size=3):
    parts = tuple(map(tf.ragged.constant, parts))
    dataset = tf.data.Dataset.from_tensor_slices(parts)
    return dataset.ragged_batch(size) if size else dataset


def padded(*parts, size=3):
    return ragged(*parts, size=None).map(_dense).padded_batch(size)


def _dense(*parts):
    return tuple(
        part.to_tensor() if isinstance(part, tf.RaggedTensor) else part
        for part in parts
    )


def weighted(dataset):
    weights = tf.data.Dataset.from_tensor_slices(WEIGHTS).batch(3)
    return tf.data.Dataset.zip(dataset, weights).map(
        lambda data, weights: (*data, weights)
    )


def fit(model, *data, **options):
    """Fits without computing, and returns the batches of the last epoch."""
    seen = record(model)
    model.fit(*data, shuffle=False, verbose=0, **options)
    return seen


@pytest.mark.parametrize("hold", [ragged, padded])
@pytest.mark.parametrize(
    "labels", [TAGS, pytest.param(NUMBERS, marks=slow_but_on("torch"))]
)
def test_a_dataset_becomes_what_lists_become(hold, labels):
    expected = fit(task("token_classifier"), WORDS, labels, batch_size=3)[-3:]
    found = fit(
        task("token_classifier"),
        hold(WORDS, labels),
        validation_data=hold(WORDS, labels),
    )
    assert_same(found[-6:-3], expected)
    assert_same(found[-3:], expected)  # of the validation


@slow_but_on("torch")
def test_weights_of_sentences_go_with_them():
    model = task("token_classifier")
    expected = fit(
        model, WORDS, TAGS, batch_size=3, sample_weight=np.array(WEIGHTS)
    )
    found = fit(task("token_classifier"), weighted(ragged(WORDS, TAGS)))
    assert_same(found[-3:], expected[-3:])


def test_scores_and_outputs_are_those_of_lists():
    model = task("token_classifier")
    expected = model.evaluate(WORDS, TAGS, batch_size=3, verbose=0)
    outputs = model.predict(WORDS, batch_size=3, verbose=0)
    for hold in (ragged, padded):
        found = model.evaluate(hold(WORDS, TAGS), verbose=0)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        found = model.predict(hold(WORDS, TAGS), verbose=0)
        np.testing.assert_allclose(found, outputs, atol=1e-6)
    alone = ragged(WORDS).map(lambda words: words)
    found = model.predict(alone, verbose=0)
    np.testing.assert_allclose(found, outputs, atol=1e-6)


def test_it_trains_on_a_dataset_of_several_epochs():
    model = task("token_classifier")
    before = model.get_weights()
    data = ragged(WORDS, TAGS)
    losses = model.fit(data, validation_data=data, epochs=2, verbose=0).history
    assert np.isfinite([losses["loss"], losses["val_loss"]]).all()
    assert any(map(np.any, map(np.subtract, before, model.get_weights())))


@slow_but_on("torch")
def test_only_the_last_empty_words_of_a_row_are_padding():
    words = tf.constant([["the", "", "film", "", ""], ["", "", "", "", ""]])
    tags = tf.constant([[0, 1, 0, 1, 1], [1, 1, 1, 1, 1]])
    data = tf.data.Dataset.from_tensors((words, tags))
    ((x, y, weights),) = fit(task("token_classifier"), data)[-1:]
    expected = task("token_classifier").preprocessor(
        [["the", "", "film"], []], [[0, 1, 0], []]
    )
    assert_same((x, y, weights), expected)


@slow_but_on("torch")
def test_texts_may_be_split_inside_the_dataset():
    model = task("token_classifier")
    texts = [" ".join(words) for words in WORDS]
    data = tf.data.Dataset.from_tensor_slices(texts).batch(4)
    found = model.predict(data.map(tf.strings.split), verbose=0)
    expected = model.predict(WORDS, verbose=0)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def refuses(call, match):
    with pytest.raises(ValueError, match=match) as error:
        call()
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


def test_what_is_wrong_inside_is_one_line_with_its_place():
    model = task("token_classifier")
    model.fit(WORDS, TAGS, verbose=0)
    wrong = [*TAGS[:5], ["bad", "ugly"], *TAGS[6:]]
    for hold in (ragged, padded):
        match = r"among class_names.*Received: {}batch 1, y\[2\]\[1\]='ugly'"
        data = hold(WORDS, wrong)
        refuses(lambda d=data: model.evaluate(d, verbose=0), match.format(""))
    refuses(
        lambda: model.fit(WORDS, TAGS, validation_data=data, verbose=0),
        match.format("validation_"),
    )
    assert np.isfinite(model.evaluate(WORDS, TAGS, verbose=0)).all()
    few = [*NUMBERS[:4], NUMBERS[4][:-1], *NUMBERS[5:]]
    refuses(
        lambda: model.fit(ragged(WORDS, few), verbose=0),
        r"4 words and 3 labels in batch 1, y\[1\]",
    )
    words = [["the"], ["a", b"\xff"]]
    refuses(
        lambda: model.predict(ragged(words), verbose=0),
        r"batch 0, x\[1\]\[1\] is no UTF-8 at byte 0",
    )
    out = [[7] * len(row) for row in NUMBERS]
    refuses(
        lambda: model.fit(padded(WORDS, out), verbose=0),
        r"from 0 to 1.*batch 0, y\[0\]\[0\]=7",
    )


@slow_but_on("torch")
def test_datasets_of_another_form_are_refused_before_anything_is_read():
    model = task("token_classifier")
    texts = tf.data.Dataset.from_tensor_slices(["the film", "a plot"])
    for data in (
        texts,
        texts.batch(2),
        ragged(WORDS, TAGS, size=None),
        ragged(NUMBERS, NUMBERS),
    ):
        for way in (model.fit, model.evaluate, model.predict):
            refuses(
                lambda way=way, x=data: way(x),
                r"tf.strings.split.*ragged_batch\(32\)",
            )
    refuses(lambda: model.fit(ragged(WORDS)), "Repeat a sentence's label")
    once = [row[0] for row in NUMBERS]
    refuses(
        lambda: model.fit(ragged(WORDS, once), verbose=0),
        "Repeat a sentence's label.*batch 0, y=",
    )
    refuses(
        lambda: model.fit(ragged(WORDS, TAGS), batch_size=3), "batch_size=3"
    )


@slow_but_on("torch")
def test_tokens_of_a_dataset_are_checked_as_well():
    model = task("token_classifier")
    x, y, weights = model.preprocessor(WORDS, NUMBERS)
    model.preprocessor = None
    data = tf.data.Dataset.from_tensor_slices((x, y, weights))
    expected = model.evaluate(x, y, sample_weight=weights, verbose=0)
    found = model.evaluate(data.batch(8), verbose=0)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    refuses(lambda: model.fit(data), r"dataset.batch\(32\)")
    wrong = tf.data.Dataset.from_tensor_slices((x, y + 1)).batch(8)
    refuses(lambda: model.fit(wrong, verbose=0), "from 0 to 1.*batch 0, y")
