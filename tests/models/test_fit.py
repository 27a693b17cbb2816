"""What `fit`, `evaluate` and `predict` take, in which order, and refuse."""

import inspect

import keras
import keras_hub
import numpy as np
import pytest
from backend import numpy
from keras import ops
from small_tasks import KINDS, VOCABULARY, WORDS, examples, preprocessor, task

from keras_synth.models.data.examples import as_arrays
from keras_synth.models.data.streams import ArrayBatches

TEXTS = [f"{word} plot" for word in WORDS]  # told apart by their first word
FIRST = [VOCABULARY.index(word) for word in WORDS]


def fit_recording(model, x, y=None, epochs=1, **options):
    """Fits, and returns the first label of each example, epoch by epoch.

    Steps compute nothing: they would be compiled, operation by operation.
    """
    seen = []

    def step(*given):
        *state, data = given  # JAX passes on all variables
        _, labels, _ = keras.utils.unpack_x_y_sample_weight(data)
        labels = numpy(labels)
        labels = labels.reshape(len(labels), -1)[:, 0]
        seen.extend(labels.astype(int).tolist())
        return ({"loss": 0.0}, *state) if state else {"loss": 0.0}

    def loss(y_true, y_pred):
        return 0.0 * ops.mean(y_pred, axis=-1)

    model.train_step = model.test_step = step
    model.get_metrics_result = lambda: {"loss": 0.0}
    model.compile("sgd", loss, run_eagerly=True)
    model.fit(x, y, epochs=epochs, verbose=0, **options)
    count = len(TEXTS)
    seen = seen[-count * epochs :]  # Keras may try the loss on a batch first
    return [seen[at : at + count] for at in range(0, len(seen), count)]


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="others trace once anyway"
)
def test_a_step_of_training_is_traced_once(monkeypatch):
    """Not again when the optimizer has its variables."""
    model = task("classifier")
    steps = []
    step = model.train_step
    monkeypatch.setattr(
        model, "train_step", lambda data: steps.append(data) or step(data)
    )
    x, y = examples("classifier", TEXTS)
    model.fit(x, y, batch_size=5, epochs=2, verbose=0)
    assert len(steps) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_each_epoch_has_every_example_once_in_another_order(kind):
    x, y = examples(kind, TEXTS)
    expected = FIRST
    if kind == "classifier":
        y = expected = list(range(10))
    model = task(kind, num_classes=10)
    keras.utils.set_random_seed(3)
    orders = fit_recording(model, x, y, batch_size=4, epochs=3)
    assert [sorted(order) for order in orders] == [sorted(expected)] * 3
    assert len({*map(tuple, orders), tuple(expected)}) == 4
    keras.utils.set_random_seed(3)
    assert orders == fit_recording(model, x, y, batch_size=4, epochs=3)
    kept = fit_recording(model, x, y, batch_size=4, epochs=2, shuffle=False)
    assert kept == [expected, expected]


@pytest.mark.parametrize(
    "hold",
    [
        lambda texts: (texts, texts[::-1]),
        np.array,
        lambda texts: np.array(texts, "object"),
    ],
    ids=["tuple", "strings", "objects"],
)
def test_parts_of_an_example_stay_together(hold):
    x, weights = hold(TEXTS), np.arange(10) / 10
    x = as_arrays(x, "x")
    data = ArrayBatches((x, np.arange(10), weights), 4, seed=1)
    seen = 0
    for texts, labels, weight in data:
        first = texts[0] if isinstance(texts, tuple) else texts
        for text, label, w in zip(first, labels, weight, strict=True):
            assert text == TEXTS[int(label)]
            assert float(w) == weights[int(label)]
            seen += 1
    assert seen == 10


def test_tokenized_arrays_are_mixed_too():
    features = preprocessor("classifier")(TEXTS)
    model = task("classifier", preprocess=False, num_classes=10)
    orders = fit_recording(model, features, np.arange(10), epochs=2)
    assert [sorted(order) for order in orders] == [list(range(10))] * 2
    assert orders[0] != orders[1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["fit", "evaluate", "validation"])
def test_parts_of_unequal_length_are_refused_before_training(kind, way):
    model = task(kind)
    before = model.get_weights()
    x, y = examples(kind, TEXTS)
    if kind == "seq2seq_lm":
        wrong = {**x, "decoder_text": TEXTS[:7]}, None
    else:
        wrong = x, [0] * 7
    call = {
        "fit": lambda: model.fit(*wrong, verbose=0),
        "evaluate": lambda: model.evaluate(*wrong, verbose=0),
        "validation": lambda: model.fit(x, y, validation_data=wrong, verbose=0),
    }[way]
    with pytest.raises(ValueError, match=r"10 in .*x.* and 7 in .*"):
        call()
    for kept, now in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(kept, now)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_as_many_as_examples(kind):
    x, y = examples(kind, TEXTS)
    with pytest.raises(ValueError, match=r"10 in x.* and 3 in sample_weight"):
        task(kind).fit(x, y, sample_weight=np.ones(3), verbose=0)


def test_pairs_and_features_are_equally_long():
    model = task("classifier")
    with pytest.raises(ValueError, match=r"10 in x\[0\] and 9 in x\[1\]"):
        model.predict((TEXTS, TEXTS[:9]))
    features = preprocessor("classifier")(TEXTS)
    features["padding_mask"] = features["padding_mask"][:4]
    model.preprocessor = None
    with pytest.raises(ValueError, match=r"x\['token_ids'\].*4 in x\['padd"):
        model.fit(features, np.zeros(10, "int32"))


@pytest.mark.parametrize("kind", KINDS)
def test_columns_and_string_tensors_do_as_well_as_lists(kind):
    pandas = pytest.importorskip("pandas")
    x, y = examples(kind, TEXTS)
    model = task(kind)

    def held(by):
        if isinstance(x, dict):
            return {name: by(texts) for name, texts in x.items()}
        return by(x)

    holders = [
        pandas.Series,
        lambda texts: pandas.Series(texts, dtype="object"),
        lambda texts: pandas.DataFrame({"text": texts}, index=range(5, 15))[
            "text"
        ],
        np.array,
        lambda texts: np.array([text.encode() for text in texts]),
    ]
    if kind != "seq2seq_lm":
        tf = pytest.importorskip("tensorflow")
        holders.append(tf.constant)
    expected = model.evaluate(x, y, verbose=0)
    outputs = model.predict(x, verbose=0)
    for by in holders:
        labels = None if y is None else pandas.Series(y)
        np.testing.assert_allclose(
            model.evaluate(held(by), labels, verbose=0), expected, rtol=1e-5
        )
        np.testing.assert_allclose(
            model.predict(held(by), verbose=0), outputs, atol=1e-5
        )
    labels = None if y is None else pandas.Series(y, dtype="Int64")
    model.fit(held(pandas.Series), labels, verbose=0)


@pytest.mark.parametrize("kind", ["causal_lm", "seq2seq_lm"])
def test_prompts_may_be_columns_and_string_tensors(kind):
    pandas = pytest.importorskip("pandas")
    tf = pytest.importorskip("tensorflow")
    model = task(kind)
    model.compile(sampler="greedy")
    expected = model.generate(TEXTS[:3], max_length=8)
    assert [type(text) for text in expected] == [str] * 3
    for hold in (pandas.Series, np.array, tf.constant):
        assert model.generate(hold(TEXTS[:3]), max_length=8) == expected
    assert model.generate(TEXTS[0], max_length=8) == expected[0]


def test_the_last_share_of_texts_can_be_validated_on():
    model = task("classifier", num_classes=10)
    seen = fit_recording(
        model, TEXTS, list(range(10)), validation_split=0.3, epochs=1
    )
    assert sorted(seen[0][:7]) == list(range(7))
    assert seen[0][7:] == [7, 8, 9]
    with pytest.raises(ValueError, match=r"validation_split=0\.95"):
        model.fit(TEXTS, list(range(10)), validation_split=0.95)


def test_class_weights_and_steps_still_count():
    model = task("classifier")
    history = model.fit(
        TEXTS,
        [0, 1] * 5,
        batch_size=2,
        class_weight={0: 0.0, 1: 0.0},
        steps_per_epoch=2,
        epochs=2,
        verbose=0,
    )
    assert history.history["loss"] == [0.0, 0.0]


def test_the_signature_is_that_of_kerashub():
    for way in ("fit", "evaluate", "predict"):
        expected = inspect.signature(getattr(keras_hub.models.Task, way))
        for kind in KINDS:
            ours = inspect.signature(getattr(type(task(kind)), way))
            assert list(ours.parameters) == list(expected.parameters)


@pytest.mark.parametrize("kind", KINDS)
def test_empty_texts_are_texts(kind):
    model = task(kind)
    x, y = examples(kind, ["", " ", "the"])
    model.fit(x, y, verbose=0)
    assert np.isfinite(model.predict(x, verbose=0)).all()
    if kind != "classifier":
        model.compile(sampler="greedy")
        assert len(model.generate(["", "the film"], max_length=6)) == 2
        assert isinstance(model.generate("", max_length=6), str)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_text_is_refused_in_one_sentence(kind):
    model = task(kind)
    for texts, match in (
        (["the", "a\ud800b"], r"\[\d\].* lone surrogate.* at place 1"),
        (["the", None], r"\[\d\].*is missing"),
        (["the", float("nan")], r"\[\d\].*is missing"),
        ([], "at least one example"),
        ("the film", "Put a single example into a list"),
        ([["the", "film"], ["a", "plot"]], "one text per example"),
    ):
        x, y = examples(kind, texts)
        y = None if y is None else y[:2]
        for way in ("fit", "evaluate", "predict"):
            given = (x,) if way == "predict" else (x, y)
            with pytest.raises(ValueError, match=match) as raised:
                getattr(model, way)(*given, verbose=0)
            assert len(str(raised.value)) < 300
    if kind != "classifier":
        with pytest.raises(ValueError, match=r"inputs\[1\] .*lone surrogate"):
            model.generate(["the", "\ud800"])


def test_prompts_and_sequences_hold_a_token():
    nothing = np.zeros((2, 6), "int32")
    model = task("causal_lm", preprocess=False)
    for ids in (nothing, nothing[:, :0]):
        with pytest.raises(ValueError, match="must hold a token"):
            model.generate(
                {"token_ids": ids, "padding_mask": ids}, stop_token_ids=None
            )
    ids = nothing[:, :0]
    for kind in ("classifier", "causal_lm"):
        model = task(kind, preprocess=False)
        with pytest.raises(ValueError, match="one token or more"):
            model.predict({"token_ids": ids, "padding_mask": ids})
    sources = {"encoder_text": ["the", "a"], "decoder_text": [""]}
    with pytest.raises(ValueError, match=r"2 in .* and 1 in"):
        task("seq2seq_lm").generate(sources)


def test_a_text_of_padding_alone_is_scored():
    ids = np.zeros((2, 6), "int32")
    model = task("classifier", preprocess=False)
    outputs = model.predict({"token_ids": ids, "padding_mask": ids}, verbose=0)
    assert np.isfinite(outputs).all()
