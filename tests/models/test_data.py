"""Data of every kind for every task: order, labels, errors."""

import inspect

import grain
import keras
import keras_hub
import numpy as np
import pandas
import pytest
from assertions import close, equal
from backend import numpy, only_on, some_on_each_backend
from every_task import (
    NAMES,
    STREAMS,
    TASKS,
    TEXTS,
    batches,
    cut,
    examples,
    record,
    stream,
    task,
)
from small_tasks import KINDS, VOCABULARY, WORDS, preprocessor
from small_tasks import examples as numbered
from small_tasks import task as small_task

TABLE = pandas.DataFrame({"body": TEXTS, "topic": NAMES})
WAYS = ("tf.data", "grain", "iterated")
SLOW = pytest.mark.slow


# Each backend trains each task one way. TensorFlow's takes longest.
TRAINED = {
    "tf.data": ("classifier", "seq2seq_lm"),
    "iterated": ("causal_lm", "masked_lm", "token_classifier"),
}


def marks_of(way, kind):
    if kind in TRAINED.get(way, ()):
        return pytest.mark.each_backend
    return () if kind == "classifier" else SLOW


def columns(kind):
    """`(x, y, sample_weight)`, or `None` for unused ones."""
    return (*examples(kind), None, None)[:3]


def dataset(way, kind, size=4):
    """The examples of a task as a batched dataset."""
    data = examples(kind)
    data = data if len(data) > 1 else data[0]
    if way == "tf.data":
        tf = pytest.importorskip("tensorflow")
        if kind == "token_classifier":
            words, tags, weights = data
            data = tf.ragged.constant(words), tf.ragged.constant(tags), weights
        return tf.data.Dataset.from_tensor_slices(data).batch(size)
    if kind == "token_classifier":
        columns = [np.fromiter(part, "object", count=8) for part in data]
        rows = grain.MapDataset.source(batches(tuple(columns), size))
    else:
        each = [cut(data, at) for at in range(8)]
        rows = grain.MapDataset.source(each).batch(size)
    return rows if way == "grain" else rows.to_iter_dataset()


def first_ids(seen):
    """The first token or label of each example that was trained on."""
    rows = [numpy(part[1]) for part in seen]
    return [int(x) for y in rows for x in y.reshape(len(y), -1)[:, 0]]


# Order


@pytest.mark.parametrize("kind", KINDS)
def test_each_epoch_has_every_example_once_in_another_order(kind):
    texts = [f"{word} plot" for word in WORDS]
    x, y = numbered(kind, texts)
    expected = [VOCABULARY.index(word) for word in WORDS]
    if kind == "classifier":
        y = expected = list(range(10))
    model = small_task(kind, num_classes=10)
    seen = record(model)
    orders = []
    for seed in (3, 3):
        keras.utils.set_random_seed(seed)
        seen.clear()
        model.fit(x, y, batch_size=4, epochs=3, verbose=0)
        ids = first_ids(seen)[-30:]  # Keras may try the loss on a batch first
        orders.append([ids[at : at + 10] for at in (0, 10, 20)])
    assert orders[0] == orders[1]
    assert [sorted(order) for order in orders[0]] == [sorted(expected)] * 3
    assert len({*map(tuple, orders[0]), tuple(expected)}) == 4
    seen.clear()
    model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
    assert first_ids(seen)[-20:] == expected * 2


def test_parts_of_an_example_stay_together():
    model = small_task("classifier", num_classes=10)
    seen = record(model)
    weights = np.arange(10) / 10
    pairs = list(WORDS), [f"{word} plot" for word in WORDS]
    model.fit(pairs, list(range(10)), sample_weight=weights, verbose=0)
    features, labels, weight = seen[-1]
    close(labels / 10, weight, atol=0, rtol=1e-6)
    for row, label in zip(features["token_ids"], labels, strict=True):
        word = VOCABULARY.index(WORDS[int(label)])
        assert row[1] == row[3] == word


# Kinds of data


def held(way, kind):
    """Arguments of `evaluate`: the examples of a task in another form."""
    if way in WAYS:
        return {"x": dataset(way, kind)}
    x, y, weights = columns(kind)

    def hold(texts):
        return pandas.Series(texts) if way == "Series" else np.array(texts, way)

    x = {k: hold(v) for k, v in x.items()} if isinstance(x, dict) else hold(x)
    y = None if y is None else pandas.Series(y)
    return {"x": x, "y": y, "sample_weight": weights, "batch_size": 4}


@pytest.mark.parametrize(
    "way, kind",
    [(way, kind) for way in ("iterated", "Series") for kind in TASKS]
    + [(way, kind) for way in ("str", "bytes") for kind in TASKS[:-1]]
    + [
        pytest.param(way, kind, marks=SLOW)
        for way in WAYS[:2]
        for kind in TASKS
    ],
)
def test_data_of_any_form_score_as_lists(way, kind):
    model, (x, y, weights) = task(kind), columns(kind)
    expected = model.evaluate(
        x, y, sample_weight=weights, batch_size=4, verbose=0
    )
    given = held(way, kind)
    found = model.evaluate(**given, verbose=0)
    close(found, expected, atol=0, rtol=1e-5)
    if kind != "masked_lm":
        close(model.predict(given["x"], verbose=0), model.predict(x, verbose=0))


@pytest.mark.parametrize(
    "kind, way",
    [
        pytest.param(kind, way, marks=marks_of(way, kind))
        for way in WAYS
        for kind in TASKS
    ],
)
def test_every_task_trains_on_a_dataset(kind, way):
    model = task(kind)
    before = model.get_weights()
    history = model.fit(
        dataset(way, kind),
        validation_data=dataset(way, kind),
        epochs=2,
        verbose=0,
    ).history
    assert np.isfinite([history["loss"], history["val_loss"]]).all()
    assert any(map(np.any, map(np.subtract, before, model.get_weights())))


@pytest.mark.parametrize("kind", ["masked_lm", "token_classifier"])
def test_a_dataset_is_mapped_by_the_preprocessor(kind):
    """Batched or not. KerasHub's own test asks the preprocessors it has."""
    tf = pytest.importorskip("tensorflow")
    made = task(kind).preprocessor
    x = examples(kind)[0]
    given = tf.ragged.constant(x) if kind == "token_classifier" else x
    texts = tf.data.Dataset.from_tensor_slices(given)
    expected = keras.tree.map_structure(numpy, made(x))
    batched = [*texts.batch(8).map(made).as_numpy_iterator()]
    equal(batched[0], expected)
    if kind != "token_classifier":
        single = [*texts.map(made).as_numpy_iterator()]
        equal(
            keras.tree.map_structure(lambda *rows: np.stack(rows), *single),
            expected,
        )


@pytest.mark.parametrize("kind", TASKS)
def test_a_batch_at_hand_is_data_as_well(kind):
    model, (x, y, weights) = task(kind), columns(kind)
    before = model.get_weights()
    model.train_on_batch(x, y, weights)
    assert any(map(np.any, map(np.subtract, before, model.get_weights())))
    model.test_on_batch(x, y)
    model.predict_on_batch(x)


@pytest.mark.parametrize("way", STREAMS)
def test_streams_of_texts_are_errors_with_a_solution(way):
    model, given = task("classifier"), batches(examples("classifier"))
    for method in (model.fit, model.evaluate, model.predict):
        with pytest.raises(ValueError, match=r"grain.MapDataset.source\(exam"):
            method(stream(way, given), verbose=0)


@pytest.mark.parametrize("way", STREAMS)
def test_without_a_preprocessor_tasks_accept_the_data_of_keras(way):
    model = small_task("classifier", preprocess=False)
    features = keras.tree.map_structure(
        numpy, preprocessor("classifier")(TEXTS)
    )
    given = [(features, np.array([0, 1] * 4))] * 2
    if way == "DataLoader":
        torch = pytest.importorskip("torch")
        given = keras.tree.map_structure(torch.as_tensor, given)
    before = model.get_weights()
    model.fit(stream(way, given), verbose=0)
    assert any(map(np.any, map(np.subtract, before, model.get_weights())))
    labels = np.array([0, 1] * 4)
    model.fit(features, labels, validation_split=0.25, verbose=0)
    assert model.predict(features, verbose=0).shape == (8, 2)


def test_validation_data_have_many_forms():
    model = task("classifier")
    history = model.fit(
        TEXTS, NAMES, validation_split=0.25, validation_batch_size=1, verbose=0
    ).history
    scores = model.evaluate(TEXTS[6:], NAMES[6:], verbose=0)
    close(history["val_loss"][0], scores[0], atol=0, rtol=1e-4)
    dataset = grain.MapDataset.source([*zip(TEXTS, NAMES, strict=True)])
    with pytest.raises(ValueError, match="another one as `validation_data`"):
        model.fit(dataset.batch(4), validation_split=0.5)
    with pytest.raises(ValueError, match=r"validation_split=0\.95 of 8"):
        model.fit(TEXTS, NAMES, validation_split=0.95)
    with pytest.raises(ValueError, match=r"validation_x\[1\] must be a text"):
        model.fit(TEXTS, NAMES, validation_data=(["a", None], ["bad"] * 2))
    for kind in ("causal_lm", "masked_lm"):
        for data in (TEXTS, (TEXTS,), (TEXTS, None)):
            fitted = task(kind).fit(TEXTS, validation_data=data, verbose=0)
            assert np.isfinite(fitted.history["val_loss"]).all()


def test_the_signature_is_that_of_kerashub():
    for way in ("fit", "evaluate", "predict"):
        expected = inspect.signature(getattr(keras_hub.models.Task, way))
        for kind in TASKS:
            ours = inspect.signature(getattr(type(task(kind)), way))
            assert list(ours.parameters) == list(expected.parameters)


@pytest.mark.each_backend
@only_on("tensorflow", "others trace once anyway")
def test_a_step_of_training_is_traced_once(monkeypatch):
    model = task("classifier")
    steps = []
    step = model.train_step
    monkeypatch.setattr(
        model, "train_step", lambda data: steps.append(data) or step(data)
    )
    model.fit(TEXTS, NAMES, batch_size=4, epochs=2, verbose=0)
    assert len(steps) == 1


# Labels


def labels_of(model, x, y, **options):
    seen = record(model)
    model.compile("sgd", options.pop("loss", "sparse_categorical_crossentropy"))
    model.run_eagerly = True
    model.fit(x, y, shuffle=False, verbose=0, **options)
    return [numpy(part).tolist() for part in seen[-1][1:]]


def test_names_of_classes_become_numbers_and_so_do_their_weights():
    expected = [int(name == "good") for name in NAMES]
    assert labels_of(task("classifier"), TEXTS, NAMES) == [expected]
    weights = labels_of(
        task("classifier"), TEXTS, NAMES, class_weight={"good": 3, "bad": 1}
    )[1]
    assert weights == [3.0, 1.0] * 4
    for wrong in ({"0": 1}, {0: 1, 2: 1}, {"bad": 1, 0: 5}, [1, 2]):
        with pytest.raises(ValueError, match=r"classes.*Received"):
            task("classifier").fit(TEXTS, NAMES, class_weight=wrong)
        with pytest.raises(ValueError, match=r"classes.*Received"):
            task("classifier").train_on_batch(TEXTS, NAMES, class_weight=wrong)
    for kind in ("token_classifier", "causal_lm", "masked_lm"):
        x, *y = examples(kind)
        with pytest.raises(ValueError, match="one label for each example"):
            task(kind).fit(x, *y[:1], class_weight={0: 1.0})
    single = small_task("classifier", num_classes=1, class_names=["no", "yes"])
    found = labels_of(
        single, TEXTS, ["no", "yes"] * 4, loss="binary_crossentropy"
    )
    assert np.ravel(found).tolist() == [0, 1] * 4


WRONG = {
    "unknown": (["ugly"] * 8, {}, r"among class_names=.*'ugly'"),
    "too large": ([0, 2] * 4, {}, r"0 to 1.*Received: 2"),
    "negative": ([0, -1] * 4, {}, r"0 to 1.*Received: -1"),
    "fractions": ([0.5] * 8, {}, r"Received: 0\.5"),
    "not binary": ([0, 1.5] * 4, {"loss": "binary_crossentropy"}, "0 to 1"),
    "too few": ([0, 1], {}, "same number of examples"),
    "missing": ([0, 1] * 3 + [0, None], {}, r"y\[7\] must be a label.*None"),
    "none": (None, {}, "Pass y"),
}


@pytest.mark.parametrize(
    "loss",
    [
        "mse",
        "kl_divergence",
        ["categorical_crossentropy"],
        lambda y, x: keras.ops.mean((y - x) ** 2, axis=-1),
    ],
)
def test_labels_can_be_shares_of_classes(loss):
    shares = [[0.25, 0.75], [1.0, 0.0]] * 4
    found = labels_of(task("classifier"), TEXTS, shares, loss=loss)
    assert found == [shares]


@pytest.mark.parametrize("weight", ["1", np.nan, np.inf])
def test_weights_of_examples_are_finite_numbers(weight):
    weights = [1.0] * 7 + [weight]
    for way in (task("classifier").fit, task("classifier").evaluate):
        with pytest.raises(ValueError, match=r"sample_weight must.*Received"):
            way(TEXTS, NAMES, sample_weight=weights, verbose=0)


@pytest.mark.parametrize("case", WRONG)
def test_wrong_labels_are_errors_before_training(case):
    labels, options, words = WRONG[case]
    model = task("classifier")
    if options:
        model.compile(**options)
    before = model.get_weights()
    for way in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match=words):
            way(TEXTS, labels, verbose=0)
    with pytest.raises(ValueError, match=words):
        model.fit(TEXTS, NAMES, validation_data=(TEXTS, labels), verbose=0)
    equal(model.get_weights(), before)


@pytest.mark.parametrize("kind", ["causal_lm", "seq2seq_lm", "masked_lm"])
def test_language_models_have_only_texts_as_labels(kind):
    model, x = task(kind), examples(kind)[0]
    for options in ({"y": NAMES}, {"sample_weight": np.ones(8)}):
        (name,) = options
        for way in (model.fit, model.evaluate):
            with pytest.raises(ValueError, match=f"Received: {name} in add"):
                way(x, verbose=0, **options)
    if kind == "masked_lm":
        pairs = grain.MapDataset.source([*zip(TEXTS, TEXTS, strict=True)])
        with pytest.raises(Exception, match=r"\(\(first, second\),\)"):
            model.fit(pairs.batch(4), verbose=0)


def test_labels_need_names_to_be_names():
    model = small_task("classifier")
    with pytest.raises(ValueError, match="with class_names"):
        model.fit(TEXTS, NAMES)
    for names in (["a"], ["a", "a"], ["a", 1], "ab c"):
        with pytest.raises(ValueError, match="different strings"):
            small_task("classifier", class_names=names)


@pytest.mark.once
@pytest.mark.parametrize("hold", [list, tuple, np.array, pandas.Series])
def test_names_of_classes_are_any_ordered_sequence(hold):
    model = small_task("classifier", class_names=hold(["bad", "good"]))
    assert model.class_names == ["bad", "good"]
    assert {*map(type, model.class_names)} == {str}
    keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(model)
    )
    with pytest.raises(ValueError, match=r"sorted\(class_names\)"):
        small_task("classifier", class_names={"bad", "good"})


def test_labels_of_regression_are_any_numbers():
    model = small_task("classifier", num_classes=1)
    model.compile(loss="mse")
    model.fit(TEXTS, np.linspace(-3, 3, 8), verbose=0)


@pytest.mark.parametrize("way", some_on_each_backend(WAYS, WAYS[:1]))
def test_a_wrong_batch_leaves_the_model_its_weights(way):
    """Keras on JAX removes them while it reads."""
    model = task("classifier")
    model.fit(TEXTS, NAMES, verbose=0)
    before = model.get_weights()
    wrong = dataset(way, "classifier")
    if way == "tf.data":
        wrong = wrong.map(lambda x, y, weights: (x, y + "x", weights))
    else:
        wrong = wrong.map(lambda batch: (batch[0][0], batch[1][0]))
    with pytest.raises(Exception, match=r"must be among|dataset\.batch\(32"):
        model.fit(wrong, verbose=0)
    # TensorFlow may decay them before it hears of the error.
    close(model.get_weights(), before, atol=1e-6, rtol=1e-4)


@pytest.mark.each_backend
def test_an_error_after_a_single_batch_keeps_weights_that_were_set():
    model = small_task("classifier", preprocess=False)
    ids = np.ones((4, 8), "int32")
    x = {"token_ids": ids, "padding_mask": ids}
    model.train_on_batch(x, np.zeros(4))
    model.set_weights([w + 1.0 for w in model.get_weights()])
    before = model.get_weights()
    long = dict.fromkeys(x, np.ones((4, 99), "int32"))
    with pytest.raises(ValueError, match="99"):
        model.predict(long, verbose=0)
    equal(model.get_weights(), before)


# Texts


@pytest.mark.parametrize("kind", KINDS)
def test_other_values_than_texts_are_errors_of_one_sentence(kind):
    model = small_task(kind)
    for texts, match in (
        (["the", None], r"\[\d\] must be a text"),
        (["the", float("nan")], r"\[\d\] must be a text"),
        ([["the", "film"], ["a", "plot"]], "as a tuple of columns"),
        ([], "at least one"),
        ("the film", "Put a single example into a list"),
    ):
        x, y = numbered(kind, texts)
        y = None if y is None else [0] * (1 if isinstance(texts, str) else 2)
        if not texts and y is not None:
            y = []
        for way in ("fit", "evaluate", "predict"):
            given = (x,) if way == "predict" else (x, y)
            if texts == "the film" and kind == "seq2seq_lm":
                continue
            with pytest.raises(ValueError, match=match) as raised:
                getattr(model, way)(*given, verbose=0)
            assert len(str(raised.value)) < 300


@pytest.mark.once
@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (TEXTS, [*NAMES[:7], float("nan")], r"y\[7\] must be a label.*nan"),
        (TEXTS, np.eye(2)[[0, 1] * 4], r"a class.*argmax\(-1\).*\(8, 2\)"),
        (TEXTS, TABLE[["topic"]], r"^y must .*table\['topic'\]"),
        (TABLE[["body"]], NAMES, r"^x must .*table\['body'\]"),
        (TABLE, None, r"x must be a column.*'topic'"),
        ("reviews.csv", None, r"x must be a column.*: 'reviews.csv'"),
        (np.arange(8), NAMES, r"x\[0\] must be a text.*: 0"),
    ],
)
def test_errors_name_the_wrong_input(x, y, message):
    with pytest.raises(ValueError, match=message) as raised:
        task("classifier").fit(x, y, verbose=0)
    assert "pairs" not in str(raised.value)


@pytest.mark.parametrize("kind", KINDS)
def test_empty_texts_are_texts(kind):
    model = small_task(kind)
    x, y = numbered(kind, ["", " ", "the"])
    model.fit(x, y, verbose=0)
    assert np.isfinite(model.predict(x, verbose=0)).all()


def test_a_single_tuple_without_labels_is_a_pair():
    pair = ["the film"], ["a plot is good"]
    expected = [1, 5, 6, 2, 14, 7, 8, 2]
    features = preprocessor("classifier")(pair, None)
    assert numpy(features["token_ids"]).tolist() == [expected]
    made = task("masked_lm").preprocessor
    features, labels, _ = made(pair, None)
    whole = np.array(features["token_ids"])
    np.put_along_axis(whole, features["mask_positions"], labels, axis=1)
    assert whole.tolist() == [expected]
    with pytest.raises(ValueError, match=r"\(first, second\), None"):
        made(pair)


def test_keeping_the_end_of_pairs_keeps_as_much_as_keeping_the_start():
    tf = pytest.importorskip("tensorflow")
    lengths = np.array([(20, 3), (3, 20), (9, 9), (2, 3)])
    texts = [[" ".join((WORDS * 3)[:n]) for n in side] for side in lengths.T]
    for keep in ("start", "end"):
        made = preprocessor("classifier", 14, keep=keep, with_segments=True)
        features = keras.tree.map_structure(numpy, made((*texts,), None))
        kept = features["padding_mask"].sum(axis=1)
        equal(kept, np.minimum(14, 3 + lengths.sum(axis=1)))
        data = tf.data.Dataset.from_tensors(((*texts,), [0] * 4))
        (graph, _), *_ = data.map(made).as_numpy_iterator()
        equal(graph, features)
    rows = features["token_ids"], features["segment_ids"], texts[1]
    for ids, segments, text in zip(*rows, strict=True):
        words = [VOCABULARY.index(x) for x in text.split()]
        second = [int(x) for x in ids[segments == 1] if x > 2]
        assert second == words[-len(second) :]
        # A separator belongs to the segment before it.
        ends = segments[ids == VOCABULARY.index("[SEP]")].tolist()
        assert ends == [0, 1]
    model = small_task("classifier")
    model.preprocessor = preprocessor("classifier", keep="end")
    assert model.predict(texts[0], verbose=0).shape == (4, 2)
    with pytest.raises(ValueError, match="round_robin"):
        preprocessor("classifier", keep="end", truncate="waterfall")
