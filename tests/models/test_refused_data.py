"""Data that no task can take: one line, with the place and the way out."""

import keras
import numpy as np
import pytest
from backend import slow_but_on
from every_task import NAMES, TAGS, TEXTS, WORDS, Batches, task

once = slow_but_on("torch")  # they depend on no backend


def refuses(call, match):
    with pytest.raises(ValueError, match=match) as error:
        call()
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


def tf_dataset(*parts, size=4):
    tf = pytest.importorskip("tensorflow")
    dataset = tf.data.Dataset.from_tensor_slices(
        parts if len(parts) > 1 else parts[0]
    )
    return dataset.batch(size) if size else dataset


def grain_dataset(*parts, size=4):
    grain = pytest.importorskip("grain")
    dataset = grain.MapDataset.source([*zip(*parts, strict=True)])
    return dataset.batch(size) if size else dataset


@once
@pytest.mark.parametrize(
    "labels, match",
    [
        ([0, 2**32] * 4, r"from 0 to 1.*y\[1\]=4294967296"),
        ([0, 2**70] * 4, r"at most 64 bits.*1180591620717411303424 in y"),
        ([0.0, 0.5] * 4, r"be integers.*y\[1\]=0.5"),
        ([0.0, float("nan")] * 4, r"be integers.*y\[1\]=nan"),
        ([0.0, 5.0] * 4, r"from 0 to 1.*y\[1\]=5.0"),
        ([0, None] * 4, r"missing.*None in y"),
        (None, "pass y"),
    ],
)
def test_numbers_that_are_no_classes_are_refused(labels, match):
    model = task("classifier")
    for way in (model.fit, model.evaluate, model.train_on_batch):
        refuses(lambda way=way: way(TEXTS, labels), match)


@once
def test_labels_suit_the_loss():
    model = task("classifier")
    model.fit(TEXTS, [0.0, 1.0] * 4, verbose=0)  # integers after all
    loss = keras.losses.CategoricalCrossentropy(from_logits=True)
    model.compile(loss=loss, metrics=[])
    model.fit(TEXTS, [[0.3, 0.7]] * 8, verbose=0)
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(loss=loss, metrics=[])
    model.fit(TEXTS, [[0.0, 1.0]] * 8, verbose=0)
    refuses(lambda: model.fit(TEXTS, [[0, 7]] * 8), r"from 0 to 1.*y\[1\]=7")
    refuses(lambda: model.fit(TEXTS, [[0, 1.5]] * 8), r"y\[1\]=1.5")


@once
def test_bytes_that_are_no_text_are_found():
    wrong = [b"the film", b"a \xff film"]
    match = r"x\[1\] is no UTF-8 at byte 2.*latin-1"
    for kind in ("classifier", "causal_lm", "masked_lm"):
        model = task(kind)
        refuses(lambda model=model: model.predict(wrong), match)
        refuses(lambda model=model: model.predict_on_batch(wrong), match)
    model = task("token_classifier")
    words = [["the"], ["a", b"\xff"]]
    refuses(lambda: model.predict(words), r"x\[1\]\[1\] is no UTF-8 at byte 0")
    model = task("classifier")
    for dataset in (tf_dataset(wrong), Batches([(wrong,)])):
        refuses(
            lambda x=dataset: model.predict(x, verbose=0), "batch 0, " + match
        )


@pytest.mark.parametrize("hold", [tf_dataset, grain_dataset])
def test_wrong_labels_inside_a_dataset_are_one_line(hold):
    model = task("classifier")
    names = [*NAMES[:6], "ugly", "good"]
    match = r"among class_names.*Received: {}batch 1, y\[2\]='ugly'"
    refuses(
        lambda: model.evaluate(hold(TEXTS, names), verbose=0), match.format("")
    )
    refuses(
        lambda: model.fit(
            TEXTS, NAMES, validation_data=hold(TEXTS, names), verbose=0
        ),
        match.format("validation_"),
    )


@once
def test_datasets_deliver_batches():
    for kind in ("classifier", "causal_lm"):
        model = task(kind)
        data = (TEXTS, NAMES) if kind == "classifier" else (TEXTS,)
        dataset = tf_dataset(*data, size=0)
        for way in (model.fit, model.evaluate):
            refuses(lambda way=way, x=dataset: way(x), r"dataset.batch\(32\)")
        refuses(
            lambda m=model: m.predict(tf_dataset(TEXTS, size=0)),
            r"dataset.batch\(32\)",
        )
    model = task("classifier")
    refuses(
        lambda: model.fit(grain_dataset(TEXTS, NAMES, size=0), verbose=0),
        r"Put a single example into a list.*batch 0, x='the film is good'",
    )
    model.preprocessor = None
    ids = np.ones((8, 4), "int32")
    features = {"token_ids": ids, "padding_mask": ids}
    dataset = tf_dataset(features, [0, 1] * 4, size=0)
    refuses(lambda: model.fit(dataset), r"dataset.batch\(32\)")


@once
@pytest.mark.parametrize(
    "batch, match",
    [
        (("the film", 1), r"batch 0, x='the film'"),
        ((TEXTS, NAMES, None, 3), "batch 0 with 4 parts"),
        ((TEXTS, NAMES[:3]), "8 in batch 0, x and 3 in batch 0, y"),
        ((TEXTS, NAMES, ["a"] * 8), "numbers.*batch 0, sample_weight"),
        ((TEXTS,), r"batches \(x, y\)"),
        (([],), "empty batch 0, x"),
        (({"text": TEXTS}, NAMES), r"batch 0, x with \['text'\]"),
        ((np.ones((8, 4)), NAMES), "takes raw strings.*batch 0, x of dtype"),
    ],
)
def test_wrong_batches_are_refused_by_number(batch, match):
    model = task("classifier")
    refuses(lambda: model.fit(Batches([batch]), verbose=0), match)
    refuses(lambda: model.fit((x for x in [batch]), verbose=0), match)


@once
def test_what_does_not_go_together_is_refused():
    model, given = task("classifier"), Batches([(TEXTS, NAMES)])
    refuses(lambda: model.fit(given, NAMES), "`y` should not be passed")
    refuses(lambda: model.fit(given, validation_split=0.5), "validation_data")
    dataset = tf_dataset(TEXTS, NAMES)
    refuses(lambda: model.fit(dataset, validation_split=0.5), "validation_data")
    refuses(lambda: model.fit(zip(TEXTS, NAMES, strict=True)), "zip object")
    refuses(lambda: model.predict({"text": TEXTS}), r"with \['text'\]")
    refuses(lambda: model.predict(np.ones((2, 4))), "takes raw strings")
    refuses(
        lambda: model.fit(tf_dataset(np.ones((8, 4)), NAMES)),
        "takes raw strings",
    )
    refuses(
        lambda: model.fit(TEXTS, NAMES, class_weight={"ugly": 2.0}),
        "Received: 'ugly'",
    )
    for kind in ("causal_lm", "masked_lm"):
        model = task(kind)
        refuses(lambda m=model: m.fit(TEXTS, NAMES), "Leave out y")
        refuses(
            lambda m=model: m.fit(TEXTS, sample_weight=[1.0] * 8),
            "Leave out sample_weight",
        )
        refuses(
            lambda m=model: m.fit(TEXTS, class_weight={0: 1.0}),
            "Leave it out",
        )
    model = task("causal_lm")
    refuses(lambda: model.fit((TEXTS, TEXTS)), "x with a tuple of 2")
    model = task("seq2seq_lm")
    refuses(lambda: model.fit(TEXTS), "encoder_text")
    model = task("token_classifier")
    dataset = tf_dataset(TEXTS)
    refuses(lambda: model.fit(dataset), "tf.strings.split")
    refuses(
        lambda: model.fit(WORDS, TAGS, sample_weight=[1.0]),
        "8 in x and 1 in sample_weight",
    )
    refuses(
        lambda: model.fit(Batches([(WORDS, TAGS[::-1])]), verbose=0),
        r"4 words and 2 labels in batch 0, y|batch 0, y\[0\]",
    )
    grain = pytest.importorskip("grain")
    loader = grain.DataLoader(
        data_source=TEXTS, sampler=grain.samplers.SequentialSampler(8)
    )
    refuses(lambda: model.fit(loader), "grain.MapDataset")


@once
def test_class_weights_go_by_names_as_well():
    model = task("classifier")
    expected = model.fit(
        TEXTS, NAMES, class_weight={0: 0.0, 1: 0.0}, verbose=0
    ).history["loss"]
    weights = {"good": 0.0, "bad": 0.0}
    ways = [(TEXTS, NAMES), (Batches([(TEXTS, NAMES)]),)]
    grained = grain_dataset(TEXTS, NAMES)
    ways += [(tf_dataset(TEXTS, NAMES),), (grained,)]
    ways += [(grained.to_iter_dataset(),)]
    for x in ways:
        found = model.fit(*x, class_weight=weights, verbose=0).history["loss"]
        assert found == expected == [0.0]
