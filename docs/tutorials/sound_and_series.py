"""
Title: Sound and series
Description: Recognize speakers by their vowels, forecast sea temperatures and
sunspots, and compare attention with baselines.
"""

"""
## Introduction

A sound is a series of frames, and measurements are a series of numbers. These
tokens need no vocabulary. A dense layer replaces the embedding, and the rest
of the model is the same as for text.

Both tasks are small and have common baselines. Each run is repeated with three
seeds. Small differences in the tables are not meaningful.

The series are from statsmodels, and the sounds are from aeon. Only one file of
aeon is needed, so we download its wheel without dependencies:
"""

import importlib.util
import pathlib
import subprocess
import sys
import zipfile

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import layers, ops
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import keras_synth
from keras_synth import datasets

SEEDS = range(3)


def pip(*arguments):
    command = [sys.executable, "-m", "pip", *arguments, "--quiet"]
    subprocess.run(command, check=True)


def folder_of_aeon():
    """Where aeon's files are: installed, or in a wheel in this folder."""
    spec = importlib.util.find_spec("aeon")
    if spec is not None:
        return pathlib.Path(spec.origin).parent
    if not [*pathlib.Path().glob("aeon-*.whl")]:
        pip("download", "--no-deps", "aeon==1.6.0")
    (wheel, *_) = pathlib.Path().glob("aeon-*.whl")
    return zipfile.Path(wheel, "aeon/")


if importlib.util.find_spec("statsmodels") is None:
    pip("install", "statsmodels")

"""
## Who is speaking?

[Japanese Vowels](https://archive.ics.uci.edu/dataset/128/japanese+vowels) are
recordings of nine men who say /ae/. A frame has 12 cepstral coefficients,
which describe the shape of its spectrum. A recording has 7 to 29 frames. There
are 270 recordings for training and 370 for testing.
"""


def read_recordings(part):
    """Arrays `(frames, 12)`, and the number of each speaker."""
    folder = folder_of_aeon() / "datasets" / "data" / "JapaneseVowels"
    text = (folder / f"JapaneseVowels_{part}.ts").read_text(encoding="utf-8")
    recordings, speakers = [], []
    for line in text.partition("@data")[2].split():
        *coefficients, speaker = line.split(":")
        frames = np.transpose([x.split(",") for x in coefficients])
        recordings.append(frames.astype("float32"))
        speakers.append(int(speaker) - 1)
    return recordings, np.array(speakers)


train_recordings, train_speakers = read_recordings("TRAIN")
test_recordings, test_speakers = read_recordings("TEST")
print(len(train_recordings), "and", len(test_recordings), "recordings")
print("frames of the first:", [len(x) for x in train_recordings[:8]])

frames = np.concatenate(train_recordings)
center, scale = frames.mean(axis=0), frames.std(axis=0)

figure, axes = plt.subplots(1, 4, figsize=(10, 2.4), layout="constrained")
for axis, i in zip(axes, [0, 1, 120, 240], strict=True):
    scaled = (train_recordings[i] - center) / scale
    axis.imshow(scaled.T, aspect="auto", vmin=-2, vmax=2)
    axis.set(title=f"speaker {train_speakers[i]}", xlabel="frame")
axes[0].set_ylabel("coefficient")
plt.show()

"""
`pad_series` stacks recordings of unequal lengths, and returns their padding
mask. If features differ between recordings or numbers are missing, it raises
an error:
"""

LENGTH = max(map(len, train_recordings + test_recordings))


def as_inputs(recordings):
    scaled = [(x - center) / scale for x in recordings]
    values, padding_mask = datasets.pad_series(scaled, length=LENGTH)
    return {"values": values, "padding_mask": padding_mask}


train_sounds, test_sounds = map(as_inputs, [train_recordings, test_recordings])
print(train_sounds["values"].shape, train_sounds["padding_mask"].shape)

"""
The first baseline ignores the order of the frames: logistic regression on the
mean and the spread of each coefficient.
"""


def summaries(recordings):
    return [np.r_[x.mean(axis=0), x.std(axis=0)] for x in recordings]


logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1_000))
logistic.fit(summaries(train_recordings), train_speakers)
accuracy = logistic.score(summaries(test_recordings), test_speakers)
print(f"logistic regression: {accuracy:.1%}")

"""
The second baseline is two small convolutions. We compare them with the encoder
block of a Transformer, with dot product (V), Random (R) or Dense (D). Tables
of R and D are as long as the longest recording. The mask hides padded frames.
"""


def sound_inputs():
    return {
        "values": keras.Input((LENGTH, 12), name="values"),
        "padding_mask": keras.Input(
            (LENGTH,), dtype="bool", name="padding_mask"
        ),
    }


def classified(x, inputs):
    x = layers.GlobalAveragePooling1D()(x, mask=inputs["padding_mask"])
    x = layers.Dropout(0.2)(x)
    return keras.Model(inputs, layers.Dense(9)(x))


def convolution(width=32):
    inputs = sound_inputs()
    x = inputs["values"]
    for _ in range(2):
        x = layers.Conv1D(width, 3, padding="same", activation="relu")(x)
    return classified(x, inputs)


class Places(layers.Layer):
    """Adds a trained vector to each place."""

    def build(self, shape):
        self.table = self.add_weight(shape=shape[1:], initializer="uniform")

    def call(self, x):
        return x + self.table


def attention(synthesizer, width=32):
    inputs = sound_inputs()
    x = layers.Dense(width)(inputs["values"])
    x = Places()(x)
    x = keras_synth.layers.SynthesizerEncoder(
        intermediate_dim=2 * width,
        num_heads=4,
        synthesizer=synthesizer,
        max_length=LENGTH,
        dropout=0.2,
        normalize_first=True,
    )(x, padding_mask=inputs["padding_mask"])
    return classified(layers.LayerNormalization()(x), inputs)


"""
JAX and TensorFlow compile a model once, which takes longer than these runs. So
each run reuses the compiled model, with the initial weights of its seed and a
new optimizer state. The number of steps does not depend on the number of
examples.
"""


class Runs:
    """Trains a model several times, and compiles it once."""

    def __init__(self, build, loss, learning_rate, metrics=None):
        self.build, self.model = build, build()
        optimizer = keras.optimizers.Adam(learning_rate)
        optimizer.build(self.model.trainable_variables)
        self.start = [ops.convert_to_numpy(v) for v in optimizer.variables]
        self.start = [np.array(value) for value in self.start]
        self.model.compile(optimizer, loss=loss, weighted_metrics=metrics)

    def train(self, inputs, targets, seed, steps, batch_size):
        keras.utils.set_random_seed(seed)
        self.model.set_weights(self.build().get_weights())
        variables = self.model.optimizer.variables
        for variable, value in zip(variables, self.start, strict=True):
            variable.assign(value)
        rng = np.random.default_rng(seed)
        passes = -(-steps * batch_size // len(targets))
        rows = [rng.permutation(len(targets)) for _ in range(passes)]
        rows = np.concatenate(rows)[: steps * batch_size]
        inputs = keras.tree.map_structure(lambda x: x[rows], inputs)
        self.model.fit(
            inputs,
            targets[rows],
            batch_size=batch_size,
            shuffle=False,
            verbose=0,
        )
        return self.model


def classifier(build):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return Runs(build, loss, 3e-3, metrics=["accuracy"])


sound_models = {
    "convolution": classifier(convolution),
    "V": classifier(lambda: attention("V")),
    "R": classifier(lambda: attention("R")),
    "D": classifier(lambda: attention("D")),
}


def accuracy_of_speakers(name, rows, seed):
    """Trains on some recordings; the share of the test's that are right."""
    inputs = {key: x[rows] for key, x in train_sounds.items()}
    speakers = train_speakers[rows]
    model = sound_models[name].train(
        inputs, speakers, seed, steps=300, batch_size=27
    )
    return model.evaluate(test_sounds, test_speakers, 370, verbose=0)[1]


def mean_and_spread(values):
    return f"{np.mean(values):6.1%} ± {np.std(values, ddof=1):.1%}"


everything = np.arange(len(train_speakers))
accuracies = {
    name: [accuracy_of_speakers(name, everything, seed) for seed in SEEDS]
    for name in sound_models
}
print(f"{'':12} accuracy, mean and standard deviation of three seeds")
print(f"{'logistic':12} {accuracy:6.1%}")
for name, values in accuracies.items():
    print(f"{name:12} {mean_and_spread(values)}")

"""
## Few recordings or many

A common rule is *convolutions for few data, attention for many*: convolutions
prefer nearby frames from the start, while attention has to learn this. Here
are both, and logistic regression, with 3 to 30 recordings of each speaker.
"""

COUNTS = [3, 6, 12, 30]


def some_of_each_speaker(count, seed):
    rng = np.random.default_rng(seed)
    rows = [np.flatnonzero(train_speakers == k) for k in range(9)]
    return np.concatenate([rng.permutation(r)[:count] for r in rows])


def accuracy_of_logistic(rows):
    features = np.array(summaries(train_recordings))[rows]
    logistic.fit(features, train_speakers[rows])
    return logistic.score(summaries(test_recordings), test_speakers)


curves = {"logistic": [], "convolution": [], "V": []}
for count in COUNTS:
    chosen = [some_of_each_speaker(count, seed) for seed in SEEDS]
    curves["logistic"].append([accuracy_of_logistic(rows) for rows in chosen])
    for name in ["convolution", "V"]:
        found = accuracies[name]
        if count < 30:
            pairs = zip(chosen, SEEDS, strict=True)
            found = [accuracy_of_speakers(name, *pair) for pair in pairs]
        curves[name].append(found)

print(f"{'recordings':12}", *(f"{9 * count:>14}" for count in COUNTS))
for name, points in curves.items():
    print(f"{name:12}", *(mean_and_spread(values) for values in points))

plt.figure(figsize=(6, 3.2), layout="constrained")
for name, points in curves.items():
    mean, spread = np.mean(points, axis=1), np.std(points, axis=1, ddof=1)
    plt.errorbar(
        9 * np.array(COUNTS), 100 * mean, 100 * spread, capsize=3, label=name
    )
plt.xscale("log")
plt.xticks(9 * np.array(COUNTS), [str(9 * count) for count in COUNTS])
plt.minorticks_off()
plt.xlabel("recordings to train on")
plt.ylabel("test accuracy, %")
plt.legend()
plt.show()

"""
With three recordings of each speaker, logistic regression is best, and V is
far behind. With thirty, logistic regression is last, and V is within a point
of the convolution. V gains most from more data, but 270 recordings are not
enough for attention to be best. [Graphs and images](graphs_and_images.md) has
thousands of examples.

R is hardly better than logistic regression, because the same sound has 7 to 29
frames, so a table of positions does not help. D, which depends on the content
of a frame, is as good as V and the convolution.

## Forecasts

The first series is the temperature of the sea off Peru and Ecuador, monthly
since
1950. It has a season of 12 months and El Niño. The second is the number of
      sunspots, yearly since 1700. It has an irregular cycle of about 11 years.
      The last quarter of each is for testing.
"""

import statsmodels.api as sm

elnino = sm.datasets.elnino.load_pandas().data
sunspots = sm.datasets.sunspots.load_pandas().data
FIRST = {"sea": 1950, "sunspots": 1700}  # year
SERIES = {  # values, and the length of a season
    "sea": (elnino.drop(columns="YEAR").to_numpy("float32").ravel(), 12),
    "sunspots": (sunspots["SUNACTIVITY"].to_numpy("float32"), 11),
}
READ, AHEAD = 36, 12  # steps

figure, axes = plt.subplots(2, 1, figsize=(9, 3.6), layout="constrained")
for axis, (name, (values, _)) in zip(axes, SERIES.items(), strict=True):
    steps_a_year = 12 if name == "sea" else 1
    years = FIRST[name] + np.arange(len(values)) / steps_a_year
    axis.plot(years, values, linewidth=0.8)
    axis.axvline(years[len(values) * 3 // 4], color="gray", linestyle=":")
    axis.set_ylabel(name)
plt.show()

"""
`series_windows` makes windows of 36 input steps and 12 steps to forecast. A
series shorter than one window raises an error. The series is split *before*
windows are made, so that test steps are never targets in training. As in
practice, the first test window reads the last steps of the training series.
"""


def windows_of(name):
    """Windows to train and to test on, in standard deviations of the first."""
    values, season = SERIES[name]
    cut = len(values) * 3 // 4
    center, scale = values[:cut].mean(), values[:cut].std()
    scaled = (values - center) / scale
    train = datasets.series_windows(scaled[:cut], READ, AHEAD)
    test = datasets.series_windows(scaled[cut - READ :], READ, AHEAD)
    return train, test, scale, season


try:
    datasets.series_windows(SERIES["sunspots"][0][:40], READ, AHEAD)
except ValueError as error:
    print(error)

"""
There are two baselines. *Seasonal naive* repeats the last season. *Ridge
regression* predicts each of the 12 steps as a weighted sum of the 36 before,
with one penalty for all. The network forecasts the difference to the last 12
steps.
"""


def forecaster(synthesizer, width=32):
    inputs = keras.Input((READ,))
    x = layers.Dense(width)(ops.expand_dims(inputs, -1))
    x = Places()(x)
    x = keras_synth.layers.SynthesizerEncoder(
        intermediate_dim=2 * width,
        num_heads=4,
        synthesizer=synthesizer,
        max_length=READ,
        dropout=0.2,
        normalize_first=True,
    )(x)
    x = layers.Flatten()(layers.LayerNormalization()(x))
    x = layers.Dense(AHEAD)(layers.Dropout(0.2)(x))
    return keras.Model(inputs, inputs[:, -AHEAD:] + x)


def convolution_forecaster(width=32):
    inputs = keras.Input((READ,))
    x = ops.expand_dims(inputs, -1)
    for _ in range(2):
        x = layers.Conv1D(width, 5, padding="same", activation="relu")(x)
    x = layers.Dense(AHEAD)(layers.Dropout(0.2)(layers.Flatten()(x)))
    return keras.Model(inputs, inputs[:, -AHEAD:] + x)


forecasters = {
    "convolution": Runs(convolution_forecaster, "mae", 1e-3),
    "V": Runs(lambda: forecaster("V"), "mae", 1e-3),
    "R": Runs(lambda: forecaster("R"), "mae", 1e-3),
    "D": Runs(lambda: forecaster("D"), "mae", 1e-3),
}


def forecasts_of(name):
    """What each way forecasts for the test, and the mean absolute errors."""
    (x, y), (x_test, y_test), scale, season = windows_of(name)
    last = x_test[:, np.arange(AHEAD) % season - season]
    ridge = Ridge(alpha=1.0).fit(x, y)
    forecasts = {"seasonal naive": [last], "ridge": [ridge.predict(x_test)]}
    for kind, runs in forecasters.items():
        forecasts[kind] = [
            runs.train(x, y, seed, steps=400, batch_size=32).predict(
                x_test, batch_size=len(x_test), verbose=0
            )
            for seed in SEEDS
        ]
    errors = {
        kind: [scale * np.abs(f - y_test).mean() for f in found]
        for kind, found in forecasts.items()
    }
    return forecasts, errors


found = {name: forecasts_of(name) for name in SERIES}
print("mean absolute error, mean and standard deviation of three seeds")
print(f"{'':14} {'sea, °C':>14} {'sunspots':>14}")
for kind in found["sea"][1]:
    cells = []
    for _, errors in found.values():
        values = errors[kind]
        spread = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
        cells.append(f"{np.mean(values):6.2f}{spread}")
    print(f"{kind:14} {cells[0]:14} {cells[1]:14}".rstrip())

"""
Here the baselines are better. For the sea, ridge regression is slightly better
than every network. For the sunspots, all networks are far behind both
baselines, and ridge regression is behind the repeated cycle, because most test
cycles are higher than those before, as the picture shows. The networks have
more weights than training windows, which also overlap. V and D are equal
within the spread. R is slightly worse for the sea.
"""

figure, axes = plt.subplots(1, 2, figsize=(10, 3.2), layout="constrained")
for axis, (name, start) in zip(
    axes, [("sea", 80), ("sunspots", 20)], strict=True
):
    _, (x_test, y_test), _, _ = windows_of(name)
    steps = np.arange(-READ, AHEAD)
    axis.plot(steps, np.r_[x_test[start], y_test[start]], "k", label="series")
    for kind in ["seasonal naive", "ridge", "V"]:
        mean = np.mean([f[start] for f in found[name][0][kind]], axis=0)
        axis.plot(steps[READ:], mean, "--", label=kind)
    axis.set(title=name, xlabel="steps from the forecast on")
axes[0].set_ylabel("standard deviations")
axes[0].legend()
plt.show()

"""
## For the real thing

- Start with the baselines. For short series, they are hard to beat and need no
  time.
- Attention needs many series for one model, or many recordings. Then use
  longer windows, in patches of several steps, with a token for each patch.
- Choose the learning rate, the number of steps and the dropout on held-out
  training data. Here they are first guesses, the same for all networks of a
  task. To save time, the steps for the recordings were reduced from 550 to
  300, after a look at the scores of both.
- Longer sounds have thousands of frames. `pattern="local(window=16)"` limits
  attention to nearby frames, and `"compressed"` or `"linformer"` shorten the
  source: [Mixers](../mixers.md).
- R and D have as many columns as the longest sound. Factorized Random,
  `"FR(rank=8)"`, has fewer weights. V has no weights for pairs of positions.
"""
