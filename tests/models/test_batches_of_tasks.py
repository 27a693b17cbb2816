"""Generators, PyDatasets, DataLoaders: batches of texts for every task."""

import keras
import numpy as np
import pytest
from backend import numpy, slow_but_on
from every_task import (
    NAMES,
    STREAMS,
    TASKS,
    TEXTS,
    Batches,
    assert_same,
    batches,
    cut,
    examples,
    record,
    stream,
    task,
)


def delivered(kind, given):
    if kind == "DataLoader":
        pytest.importorskip("torch")
    return stream(kind, given)


def fit(model, x, y=None, sample_weight=None, **options):
    """Fits, and returns the batches of the only epoch."""
    seen = record(model)
    model.fit(
        x, y, sample_weight=sample_weight, shuffle=False, verbose=0, **options
    )
    return seen


# What a backend sees, it sees of one task.
OTHERS = [
    pytest.param(kind, marks=slow_but_on("torch"))
    for kind in TASKS
    if kind != "classifier"
]


@pytest.mark.parametrize("kind", ["classifier", *OTHERS])
@pytest.mark.parametrize("way", STREAMS)
def test_batches_become_what_examples_in_memory_become(kind, way):
    if kind == "masked_lm":
        pytest.skip("draws what it hides: see below")
    model, data = task(kind), examples(kind)
    expected = fit(model, *data, batch_size=4)[-2:]
    given = batches(data)
    found = fit(
        task(kind),
        delivered(way, given),
        validation_data=delivered(way, given),
    )
    assert_same(found[-4:-2], expected)
    assert_same(found[-2:], expected)  # of the validation


@slow_but_on("torch")
@pytest.mark.parametrize("way", STREAMS)
def test_batches_hide_other_tokens_each_time_and_the_same_to_validate(way):
    model, data = task("masked_lm"), examples("masked_lm")
    same = cut(data, 0, 4)
    once = fit(
        model,
        delivered(way, [same, same]),
        validation_data=delivered(way, [same]),
    )[-3:]
    again = fit(
        task("masked_lm"),
        delivered(way, [same, same]),
        validation_data=delivered(way, [same]),
    )[-3:]
    assert_same(again, once)
    first, second, _ = (x["mask_positions"] for x, _, _ in once)
    assert first.shape == second.shape == (4, 3)
    assert np.sort(first, axis=0).tolist() != np.sort(second, axis=0).tolist()
    whole = model.preprocessor.tokens(TEXTS[:4])["token_ids"]
    x, labels, weights = once[-1]
    places = np.take_along_axis(whole, x["mask_positions"], axis=1)
    np.testing.assert_array_equal(labels * weights, places * weights)
    assert (weights.sum(axis=1) >= 1).all()
    if way == "PyDataset":
        *_, before, after = fit(model, Batches([same]), epochs=2)
        assert (before[0]["token_ids"] != after[0]["token_ids"]).any()


def test_a_generator_ends_an_epoch_or_its_steps_do():
    model, given = task("classifier"), batches(examples("classifier"))
    seen = record(model)
    model.fit((batch for batch in given), verbose=0)
    assert len(seen) >= 2
    endless = (given[at % 2] for at in iter(int, 1))
    seen.clear()
    model.fit(endless, steps_per_epoch=3, epochs=2, verbose=0)
    assert 6 <= len(seen) <= 7  # Keras may try the loss on a batch first
    result = model.evaluate((given[0] for _ in iter(int, 1)), steps=2)
    assert result == 0.0
    with pytest.raises(ValueError, match="at least one batch"):
        model.fit(batch for batch in [])
    with pytest.raises(ValueError, match="at least one batch"):
        model.fit(Batches([]))


def test_a_dataset_is_told_of_epochs_and_keeps_its_workers():
    model = task("classifier")
    given = Batches(batches(examples("classifier")), workers=2)
    seen = fit(model, given, epochs=2, validation_data=(TEXTS, NAMES))
    assert given.epochs >= 2  # Keras also ends one that it looked into
    assert len(seen) >= 2 * (2 + 1)


@slow_but_on("torch")
@pytest.mark.parametrize("size", [2, 4])
def test_loaders_may_collate_as_they_do_by_default(size):
    loaders = pytest.importorskip("torch.utils.data")
    model = task("classifier")
    numbers = [1, 0] * 4
    expected = fit(model, TEXTS, numbers, batch_size=size)[-8 // size :]
    rows = [*zip(TEXTS, numbers, strict=True)]
    for collate in (None, lambda rows: tuple(zip(*rows, strict=True))):
        loader = loaders.DataLoader(rows, batch_size=size, collate_fn=collate)
        assert_same(fit(model, loader)[-8 // size :], expected)
    pairs = [((a, b), n) for a, b, n in zip(TEXTS, NAMES, numbers, strict=True)]
    loader = loaders.DataLoader(pairs, batch_size=size)
    expected = fit(model, (TEXTS, NAMES), numbers, batch_size=size)
    assert_same(fit(model, loader)[-8 // size :], expected[-8 // size :])


@pytest.mark.parametrize("hold", ["memory", "tf.data", "grain", "iterated"])
def test_batches_go_along_with_data_of_other_kinds(hold):
    model = task("classifier")
    data = examples("classifier")[:2]
    given = batches(data)
    expected = fit(model, Batches(given))[-2:]
    for train in (True, False):
        options = {}
        if hold == "memory":
            other = data
            options = {"batch_size" if train else "validation_batch_size": 4}
        elif hold == "tf.data":
            tf = pytest.importorskip("tensorflow")
            other = tf.data.Dataset.from_tensor_slices(data).batch(4)
        else:
            grain = pytest.importorskip("grain")
            rows = [*zip(*data, strict=True)]
            other = grain.MapDataset.source(rows).batch(4)
            if hold == "iterated":
                other = other.to_iter_dataset()
        if not train:
            seen = fit(model, Batches(given), validation_data=other, **options)
        else:
            mine = other if hold == "memory" else (other,)
            options["validation_data"] = Batches(given)
            seen = fit(model, *mine, **options)
        for found, wanted in zip(seen[-4:], expected * 2, strict=True):
            assert_same(found[:2], wanted[:2])


def test_scores_and_outputs_are_those_of_examples_in_memory():
    model, data = task("classifier"), examples("classifier")
    expected = model.evaluate(*data[:2], sample_weight=data[2], batch_size=4)
    outputs = model.predict(TEXTS, batch_size=4, verbose=0)
    for way in STREAMS:
        given = batches(data)
        found = model.evaluate(delivered(way, given), verbose=0)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        found = model.predict(delivered(way, given), verbose=0)
        np.testing.assert_allclose(found, outputs, atol=1e-6)
    ugly = [(batch[0], ["ugly"] * 4) for batch in given]  # labels not needed
    found = model.predict(Batches(ugly), verbose=0)
    np.testing.assert_allclose(found, outputs, atol=1e-6)


@slow_but_on("torch")
@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("way", STREAMS)
def test_every_task_trains_on_batches(kind, way):
    model = task(kind)
    before = model.get_weights()
    given = batches(examples(kind))
    history = model.fit(
        delivered(way, given),
        validation_data=delivered(way, given),
        verbose=0,
    ).history
    assert np.isfinite([history["loss"], history["val_loss"]]).all()
    assert any(map(np.any, map(np.subtract, before, model.get_weights())))


@pytest.mark.parametrize("kind", ["classifier", *OTHERS])
def test_a_batch_at_hand_is_data_as_well(kind):
    """Names of classes and arrays of strings, too."""
    model, (x, *labels) = task(kind), examples(kind)
    seen = []

    def keep(x, y=None, sample_weight=None, **options):
        parts = [part for part in (x, y, sample_weight) if part is not None]
        seen.append(keras.tree.map_structure(numpy, parts))

    # What Keras itself is given, and computes with.
    with pytest.MonkeyPatch.context() as patch:
        for name in ("train_on_batch", "test_on_batch", "predict_on_batch"):
            patch.setattr(
                keras.Model, name, lambda self, x, *y, **named: keep(x, **named)
            )
        model.train_on_batch(x, *labels)
        model.test_on_batch(x, *labels)
        model.predict_on_batch(x)
        if kind not in ("seq2seq_lm", "token_classifier"):
            model.train_on_batch(np.array(x), *labels)
    given = fit(model, x, *labels, batch_size=8)[-1]
    for found in [seen[0], seen[1], *seen[3:]]:
        if kind == "masked_lm":  # hides others
            assert found[1].shape == found[2].shape
        else:
            assert_same(found, given)
    if kind != "masked_lm":
        assert_same(seen[2], given[:1])


@pytest.mark.parametrize("wrong", [0, 1])
def test_a_wrong_batch_leaves_the_model_its_weights(wrong):
    """Keras on JAX takes them away while it reads."""
    model, data = task("classifier"), examples("classifier")[:2]
    model.fit(*data, verbose=0)
    before = model.get_weights()
    given = batches(data)
    given[wrong] = (TEXTS[:4], ["good", "ugly", "good", "ugly"])
    place = rf"batch {wrong}, y\[1\]='ugly'"
    with pytest.raises(ValueError, match=f"Received: {place}"):
        model.evaluate(Batches(given), verbose=0)
    assert_same(model.get_weights(), before)
    texts = [(TEXTS[:4],), (TEXTS[4:],)]
    texts[wrong] = ([b"\xff"],)
    with pytest.raises(ValueError, match=rf"batch {wrong}, x\[0\] is no UTF-8"):
        model.predict(Batches(texts), verbose=0)
    assert_same(model.get_weights(), before)
    with pytest.raises(ValueError, match=f"Received: {place}"):
        model.fit(Batches(given), verbose=0)
    if not wrong:
        assert_same(model.get_weights(), before)
    with pytest.raises(ValueError, match=f"Received: validation_{place}"):
        model.fit(*data, validation_data=Batches(given), verbose=0)
    assert np.isfinite(model.evaluate(*data, verbose=0)).all()
    assert np.isfinite(model.fit(*data, verbose=0).history["loss"]).all()


@slow_but_on("torch")
def test_validation_data_may_be_a_list_a_pair_or_texts_alone():
    model = task("classifier")
    expected = fit(model, TEXTS, NAMES, validation_data=(TEXTS, NAMES))[-1]
    found = fit(model, TEXTS, NAMES, validation_data=[TEXTS, NAMES])[-1]
    assert_same(found, expected)
    for kind in ("causal_lm", "masked_lm"):
        model = task(kind)
        for validation in (TEXTS, (TEXTS,)):
            seen = fit(model, TEXTS, validation_data=validation)
            assert len(seen[-1][0]["token_ids"]) == len(TEXTS)
    pair = fit(model, TEXTS, validation_data=(TEXTS, TEXTS))[-1]
    assert pair[0]["padding_mask"].sum() > seen[-1][0]["padding_mask"].sum()
