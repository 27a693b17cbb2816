"""Labels of classifiers: numbers, names of classes, one output."""

import keras
import numpy as np
import pytest
from small_tasks import task

pytestmark = pytest.mark.usefixtures("without_graphs")
TEXTS = ["the film is good", "the film is dull"] * 4
NAMES = ["good", "bad"] * 4
NUMBERS = [1, 0] * 4


def named(**options):
    return task("classifier", class_names=["bad", "good"], **options)


def tf_dataset(labels, texts=TEXTS):
    tf = pytest.importorskip("tensorflow")
    return tf.data.Dataset.from_tensor_slices((texts, labels)).batch(4)


def grain_dataset(labels, texts=TEXTS):
    grain = pytest.importorskip("grain")
    return grain.MapDataset.source([*zip(texts, labels, strict=True)]).batch(4)


def test_names_of_classes_may_be_held_by_columns_arrays_and_datasets():
    pandas = pytest.importorskip("pandas")
    model = named()
    expected = model.evaluate(TEXTS, NUMBERS, verbose=0)
    for labels in (
        NAMES,
        np.array(NAMES),
        pandas.Series(NAMES, index=range(3, 11)),
        pandas.Series(NAMES, dtype="category"),
    ):
        found = model.evaluate(TEXTS, labels, verbose=0)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    for dataset in (tf_dataset(NAMES), grain_dataset(NAMES)):
        found = model.evaluate(dataset, verbose=0)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert model.predict(tf_dataset(NAMES), verbose=0).shape == (8, 2)


@pytest.mark.parametrize(
    "validation",
    [lambda: (TEXTS, NAMES), lambda: tf_dataset(NAMES)],
    ids=["tuple", "dataset"],
)
def test_names_of_classes_validate(validation):
    model = named()
    history = model.fit(
        TEXTS, NAMES, validation_data=validation(), verbose=0
    ).history
    loss, _ = model.evaluate(TEXTS, NUMBERS, verbose=0)
    assert history["val_loss"][0] == pytest.approx(loss, rel=1e-4)


def test_a_dataset_of_names_is_fitted():
    model = named()
    history = model.fit(tf_dataset(NAMES), epochs=2, verbose=0).history
    assert np.isfinite(history["loss"]).all()


@pytest.mark.parametrize(
    "labels, match",
    [
        ([0, 2] * 4, r"validation_y\[1\]=2"),
        ([-1, 1] * 4, r"validation_y\[0\]=-1"),
        (["good", "ugly"] * 4, r"validation_y\[1\]='ugly'"),
    ],
)
def test_wrong_validation_labels_are_refused_before_training(labels, match):
    model = named()
    before = model.get_weights()
    with pytest.raises(ValueError, match=match):
        model.fit(TEXTS, NAMES, validation_data=(TEXTS, labels), verbose=0)
    for kept, now in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(kept, now)


def test_wrong_labels_of_a_dataset_are_errors():
    model = named()
    for labels in (["good", "ugly"] * 4, [0, 5] * 4):
        with pytest.raises(ValueError, match=r"Labels must.*batch 0, y\[1\]="):
            model.evaluate(tf_dataset(labels), verbose=0)
    with pytest.raises(ValueError, match="with class_names"):
        task("classifier").fit(tf_dataset(NAMES))


@pytest.mark.parametrize("activation", [None, "sigmoid"])
def test_one_output_separates_two_classes(activation, tmp_path):
    model = named(num_classes=1, activation=activation)
    assert isinstance(model.loss, keras.losses.BinaryCrossentropy)
    model.fit(TEXTS, NAMES, verbose=0)
    outputs = model.predict(TEXTS, verbose=0)
    assert outputs.shape == (8, 1)
    loss, accuracy = model.evaluate(TEXTS, NUMBERS, verbose=0)
    logits = outputs[:, 0]
    if activation:
        logits = np.log(logits / (1 - logits))
    labels = np.array(NUMBERS)
    expected = np.logaddexp(0, np.where(labels, -logits, logits)).mean()
    assert loss == pytest.approx(expected, rel=1e-4)
    assert accuracy == np.mean((logits > 0) == labels)
    with pytest.raises(ValueError, match=r"from 0 to 1.*y\[0\]=2"):
        model.fit(TEXTS, [2, 1] * 4)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(
        loaded.predict(TEXTS, verbose=0), outputs, atol=1e-6
    )


def test_one_output_does_regression():
    model = task("classifier", num_classes=1)
    model.compile(loss="mse")
    ratings = [4.5, 1.0] * 4
    model.fit(TEXTS, ratings, verbose=0)
    loss, error = model.evaluate(TEXTS, ratings, verbose=0)
    wrong = model.predict(TEXTS, verbose=0)[:, 0] - np.array(ratings)
    assert loss == pytest.approx(np.square(wrong).mean(), rel=1e-4)
    assert error == pytest.approx(np.abs(wrong).mean(), rel=1e-4)
    model.fit(TEXTS, [4, 1] * 4, verbose=0)  # integers are numbers as well
    with pytest.raises(ValueError, match="softmax of one class"):
        task("classifier", num_classes=1, activation="softmax")
