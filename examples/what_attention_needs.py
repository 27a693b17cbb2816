"""
Title: What does attention need to learn?
Author: The keras_synth authors
Date created: 2026/11/26
Last modified: 2026/11/27
Description: Three tasks with learned, frozen and static attention.
Accelerator: None
"""

"""
## Introduction

Dong et al., 2025 (arXiv 2506.01115) freeze parts of attention at their random
initial values, and ask which tasks a Transformer can still learn. This script
is a small version: three generated tasks, the same two blocks, and six kinds of
attention.
"""

import keras
import matplotlib.pyplot as plt
import numpy as np

from keras_synth.layers import SynthesizerEncoder

VARIANTS = {
    "V": "V: learned comparisons of tokens",
    "V(fixed=True)": "V(fixed=True): frozen comparisons",
    "D": "D: learned from each token alone",
    "R": "R: learned table of positions",
    "Fix": "Fix: frozen table of positions",
    "local(window=2)": "local(window=2): comparisons of neighbours",
}
SEEDS = [0, 1, 2]
# False: embeddings of positions keep their random initial values, too.
TRAINED_POSITIONS = False
STEPS, BATCH, TEST = 1_500, 64, 1_000
WIDTH, HEADS, BLOCKS = 48, 4, 2

"""
## Data

Each function returns input tokens, whose last positions are blank, and the
tokens that the model should predict there. A position can have several tokens.
"""

BLANK, VOCABULARY = 32, 33


def addition(rng, count, digits=3):
    """Two numbers, lowest digits first; the answer is their sum."""
    a, b = rng.integers(0, 10, (2, count, digits))
    places = 10 ** np.arange(digits + 1)
    total = a @ places[:-1] + b @ places[:-1]
    return np.concatenate([a, b], 1), total[:, None] // places % 10


def copying(rng, count, length=8):
    """A sequence; the answer is the same sequence."""
    x = rng.integers(0, 16, (count, length))
    return x, x


def retrieval(rng, count, pairs=8):
    """Pairs of a key and a value, and a key; the answer is its value."""
    keys = rng.permuted(np.tile(np.arange(16), (count, 1)), axis=1)[:, :pairs]
    values = 16 + rng.integers(0, 16, (count, pairs))
    asked = rng.integers(0, pairs, (count, 1))
    key, value = (np.take_along_axis(x, asked, 1) for x in (keys, values))
    keys = np.concatenate([keys, key], 1)
    values = np.concatenate([values, np.full_like(key, BLANK)], 1)
    return np.stack([keys, values], 2), value


TASKS = {"addition": addition, "copying": copying, "retrieval": retrieval}


def examples(task, seed, count):
    x, y = TASKS[task](np.random.default_rng(seed), count)
    x = x.reshape(*x.shape[:2], -1)  # samples, positions, tokens
    blanks = np.full((*y.shape, x.shape[2]), BLANK)
    return np.concatenate([x, blanks], 1).astype("int32"), y.astype("int32")


"""
## Model
"""


def build_model(synthesizer, length, width, answer):
    tokens = keras.Input((length, width), dtype="int32")
    x = keras.layers.Embedding(VOCABULARY, WIDTH)(tokens)
    x = keras.ops.sum(x, axis=2)
    places = keras.ops.zeros_like(tokens[..., 0]) + keras.ops.arange(length)
    positions = keras.layers.Embedding(
        length, WIDTH, trainable=TRAINED_POSITIONS
    )(places)
    x = keras.layers.Add()([x, positions])
    for _ in range(BLOCKS):
        x = SynthesizerEncoder(
            2 * WIDTH,
            HEADS,
            synthesizer=synthesizer,
            max_length=length,
            normalize_first=True,
        )(x)
    x = keras.layers.LayerNormalization()(x[:, -answer:])
    model = keras.Model(tokens, keras.layers.Dense(VOCABULARY)(x))
    schedule = keras.optimizers.schedules.CosineDecay(3e-3, STEPS)
    model.compile(
        keras.optimizers.Adam(schedule),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model


"""
## Training

An answer is right if all its tokens are right.
"""


def score(task, synthesizer, seed):
    keras.utils.set_random_seed(seed)
    x, y = examples(task, seed, STEPS * BATCH)
    model = build_model(synthesizer, *x.shape[1:], y.shape[1])
    model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0)
    x, y = examples(task, 1_000_000 + seed, TEST)
    found = model.predict(x, verbose=0, batch_size=TEST).argmax(-1)
    return 100 * (found == y).all(1).mean()


scores = {}
for task in TASKS:
    for name in VARIANTS:
        scores[task, name] = [score(task, name, seed) for seed in SEEDS]
        numbers = ", ".join(f"{x:.1f}" for x in scores[task, name])
        print(f"{task:10} {name:16} {numbers}", flush=True)

"""
## Result

One bar for each kind of attention, with the lowest and highest of the seeds.
"""

figure, axes = plt.subplots(1, len(TASKS), figsize=(10, 3), sharey=True)
for axis, task in zip(axes, TASKS, strict=True):
    for place, name in enumerate(reversed(VARIANTS)):
        found = scores[task, name]
        mean = np.mean(found)
        spread = [[mean - min(found)], [max(found) - mean]]
        axis.barh(place, mean, xerr=spread, capsize=3)
    axis.set(title=task, xlabel="right answers in percent", xlim=(0, 105))
axes[0].set_yticks(
    range(len(VARIANTS)), [VARIANTS[name] for name in reversed(VARIANTS)]
)
figure.tight_layout()
figure.savefig("what_attention_needs.svg")
