"""The loss, schedules and optimizer, against their formulas and Keras' own."""

import keras
import numpy as np
import pytest
from assertions import close
from backend import numpy

from keras_synth import mixers
from keras_synth.layers import SyntheticAttention
from keras_synth.training import (
    InverseSquareRoot,
    LabelSmoothedCrossentropy,
    adamw,
)


def examples(seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 7, (3, 5)).astype("int32")
    return labels, rng.normal(size=(3, 5, 7)).astype("float32") * 3


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_the_smoothed_loss_is_that_of_smoothed_labels(smoothing):
    labels, logits = examples()
    weights = np.arange(15).reshape(3, 5) % 3
    dense = keras.losses.CategoricalCrossentropy(
        from_logits=True,
        label_smoothing=smoothing,
        reduction="mean_with_sample_weight",
    )
    loss = LabelSmoothedCrossentropy(smoothing)
    for given in (None, weights):
        close(
            loss(labels, logits, given),
            dense(np.eye(7)[labels], logits, given),
            atol=0,
            rtol=1e-5,
        )


def test_the_rate_grows_linearly_and_falls_with_the_root():
    schedule = InverseSquareRoot(2e-3, 100)
    rates = [float(schedule(step)) for step in (0, 49, 99, 399)]
    close(rates, [2e-5, 1e-3, 2e-3, 1e-3], atol=0, rtol=1e-5)


def test_both_are_saved_with_a_model(tmp_path):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model.compile(
        keras.optimizers.Adam(InverseSquareRoot(1e-2, 10)),
        LabelSmoothedCrossentropy(0.2),
    )
    x, y = np.ones((6, 4), "float32"), np.zeros(6, "int32")
    model.fit(x, y, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.loss.label_smoothing == 0.2
    assert loaded.optimizer._learning_rate.warmup_steps == 10
    assert loaded.evaluate(x, y, verbose=0) == pytest.approx(
        model.evaluate(x, y, verbose=0)
    )


def test_arguments_out_of_range_are_errors():
    with pytest.raises(ValueError, match="label_smoothing"):
        LabelSmoothedCrossentropy(1.5)
    for rate in (0.0, float("inf"), "high"):
        with pytest.raises(ValueError, match="peak_learning_rate"):
            InverseSquareRoot(rate, 10)
    with pytest.raises(ValueError, match="warmup_steps"):
        InverseSquareRoot(1e-3, 0)
    labels, logits = examples()
    with pytest.raises(ValueError, match=r"must be integers.*\(3, 5, 7\)"):
        LabelSmoothedCrossentropy()(np.eye(7)[labels], logits)


@pytest.mark.each_backend
def test_a_model_is_trained_by_adamw():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(adamw(0.1), "mse")
    found = model.fit(np.ones((4, 3)), 9 * np.ones((4, 2)), epochs=9, verbose=0)
    assert found.history["loss"][-1] < 0.9 * found.history["loss"][0]


def test_weight_decay_spares_biases_normalizations_and_alphas():
    optimizer = adamw(0.1, weight_decay=0.5)
    model = keras.Sequential(
        [
            keras.Input((4, 3)),
            keras.layers.Dense(2),
            keras.layers.LayerNormalization(),
            keras.layers.RMSNormalization(),
            SyntheticAttention(1, 2, synthesizer="R+V+D+FD", max_length=4),
            mixers.get("mlp_mixer", max_length=4),
            mixers.get("gmlp", max_length=4),
        ]
    )
    variables = model.trainable_variables
    optimizer.build(variables)
    spared = {x.name for x in variables if not optimizer._use_weight_decay(x)}
    biases = {"bias", "b", "b1", "b2", "b_A", "b_B"}
    assert spared == {"gamma", "beta", "scale", "alphas", *biases}
    assert {"R", "W", "W2", "A", "B"} <= {x.name for x in variables} - spared
    again = type(optimizer).from_config(optimizer.get_config())  # as in files
    again.build(variables)
    assert spared == {
        x.name for x in variables if not again._use_weight_decay(x)
    }


def test_adafactor_trains_tables_that_are_longer_than_the_sequences():
    """As docs/keras_bugs.md advises: its own `epsilon_1` makes NaNs."""
    layer = SyntheticAttention(2, 2, synthesizer="R", max_length=9)
    model = keras.Sequential([keras.Input((4, 3)), layer])
    model.compile(keras.optimizers.Adafactor(0.1, epsilon_1=1e-18), "mse")
    before = numpy(layer.synthesizer.weights[0])
    x = np.random.default_rng(0).normal(size=(8, 4, 3)).astype("float32")
    model.fit(x, x, batch_size=4, verbose=0)
    moved = numpy(layer.synthesizer.weights[0]) != before
    assert moved[:, :4, :4].all()
    assert moved.sum() == 2 * 4 * 4
    assert all(np.isfinite(numpy(w)).all() for w in model.weights)
