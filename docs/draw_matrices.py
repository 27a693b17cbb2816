"""Draws matrices: weights of attention, influences of tokens, the gallery.

    python docs/draw_matrices.py synthesizers     # docs/synthesizers/*.png
    python docs/draw_matrices.py mixers           # docs/mixers/*.png
    python docs/draw_matrices.py gallery          # what is new in the gallery

synthesizers: weights of one head for two sequences of 24 tokens, of which the
second has other tokens at positions 8 to 11, and their absolute difference,
which shows what the weights depend on. Tables are drawn from a seed, with
larger initial values than a layer starts with, so that the structure is seen.

mixers: each token in turn is changed, and the change of all outputs measured.
Row `i`, column `j` is how much output `i` moves with input `j`, at the weights
of the start, from a seed. `influence.png` shows all mixers, the other pictures
a family each, below in their causal form.

gallery: every entry of `gallery_cards.ENTRIES` that is not in trained.json is
trained on the questions of the tutorial First steps, then drawn with a pixel
for each pair of tokens. All of them take half an hour.

Colours are of square roots, which show small values next to large ones.
"""

import argparse
import json
import pathlib
import re

import gallery_cards
import keras
import numpy as np
from matplotlib import figure, image

import keras_synth
from keras_synth.compare.files import writing

DOCS = pathlib.Path(__file__).resolve().parent
GREY = "#808080"  # legible on white and on black
CHANGED = slice(8, 12)
WIDE = "initializer={'class_name': 'RandomNormal', 'config': {'stddev': 1.5}}"
NARROW = WIDE.replace("1.5", "0.5")
# File -> title, synthesizer and head of each row.
SYNTHESIZERS = {
    "dot_product": [("dot_product", "V", 0)],
    "dense": [
        ("dense", f"D({WIDE})", 0),
        ("factorized_dense", f"FD({NARROW})", 0),
    ],
    "random": [
        ("random", f"R({WIDE})", 0),
        ("factorized_random, rank 2", f"FR(rank=2, {WIDE})", 0),
    ],
    "mixtures": [
        ("R + V", f"R({WIDE}) + V", 0),
        ("R + D", f"R({WIDE}) + D({WIDE})", 0),
    ],
    "distances": [
        ("relative, max_distance 8", f"relative(max_distance=8, {WIDE})", 0),
        ("alibi", "alibi", 0),
        ("alibi + V", "alibi + V", 0),
    ],
    "head_groups": [
        ("heads(V=2, R=2), head 0", f"heads(2 * V + 2 * R({WIDE}))", 0),
        ("heads(V=2, R=2), head 2", f"heads(2 * V + 2 * R({WIDE}))", 2),
    ],
    # These do not depend on tokens: one picture each.
    "hand_made": [
        ("gaussian, offset -1", "gaussian", 0),
        ("gaussian, offset 0", "gaussian", 1),
        *(
            (name, f"pattern(patterns=({name!r},))", 0)
            for name in ("previous", "window", "left", "end")
        ),
    ],
}
# File -> mixers.
MIXERS = {
    "influence": [
        *("V", "R", "D", "relative(max_distance=8) + V", "gaussian"),
        *("local(window=4)", "strided(stride=8, window=3)"),
        "longformer(window=4)",
        "big_bird(block_size=4, random_blocks=1, seed=2)",
        *("linformer(rank=8)", "linear", "performer", "light_conv(width=7)"),
        *("dynamic_conv(width=7)", "mlp_mixer", "gmlp", "fnet", "relu"),
    ],
    "sparse": [
        *("local(window=4)", "strided(stride=8, window=3)"),
        *("longformer(window=4)", "big_bird(block_size=4, seed=2)"),
    ],
    "linformer": ["V", "linformer(rank=8)", "linformer(rank=2)"],
    "kernels": ["V", "linear", "performer"],
    "pairs": ["V", "additive", "relu"],
    "convolutions": [
        *("light_conv(width=7)", "dynamic_conv(width=7)"),
        "light_conv(width=15)",
    ],
    "mlp": ["mlp_mixer", "gmlp"],
    "fnet": ["fnet"],
}
# Of the gallery's questions, and of training.
LENGTH, KEYS, VALUES, EPOCHS = 16, 8, 10, 2


def show(axes, matrix, title, largest=1.0):
    axes.imshow(matrix**0.5, cmap="magma", vmin=0, vmax=largest**0.5)
    axes.set_title(title.replace("(", "\n(", 1), fontsize=8, color=GREY)
    axes.set_xticks([])
    axes.set_yticks([])


def grid(path, rows, columns, kinds=("query i", "key j"), size=(2.2, 2.35)):
    """Yields axes row by row, then saves them as `path`."""
    width, height = size
    made = figure.Figure((width * columns, height * rows), layout="constrained")
    panels = made.subplots(rows, columns, squeeze=False)
    for axes in panels[:, 0]:
        axes.set_ylabel(kinds[0], color=GREY)
    for axes in panels[-1]:
        axes.set_xlabel(kinds[1], color=GREY)
    yield from panels.flat
    with writing(path, "wb") as file:
        made.savefig(file, format="png", dpi=200, transparent=True)
    print(path)


# --- synthesizers ---


def weights(name, head):
    """Attention weights of a head for two sequences: `(2, T, T)`."""
    rng = np.random.default_rng(0)
    tokens = rng.normal(size=(2, 24, 32)).astype("float32")
    same = np.ones(24, bool)
    same[CHANGED] = False
    tokens[1, same] = tokens[0, same]
    keras.utils.set_random_seed(0)
    layer = keras_synth.layers.SyntheticAttention(
        4, 8, synthesizer=name, max_length=24
    )
    _, scores = layer(1.3 * tokens, return_attention_scores=True)
    return keras.ops.convert_to_numpy(scores)[:, head]


def draw_synthesizers(folder):
    for file, rows in SYNTHESIZERS.items():
        is_single = file == "hand_made"
        panels = grid(folder / f"{file}.png", 2 if is_single else len(rows), 3)
        for title, name, head in rows:
            first, second = weights(name, head)
            if is_single:
                show(next(panels), first, title)
                continue
            largest = first.max()
            show(next(panels), first, title, largest)
            for matrix, said in (
                (second, "tokens 8 to 11 changed"),
                (abs(first - second), "difference"),
            ):
                axes = next(panels)
                show(axes, matrix, said, largest)
                axes.set_yticks([CHANGED.start, CHANGED.stop - 1])
                axes.tick_params(labelsize=7, colors=GREY)
        next(panels, None)  # saves


# --- mixers ---


def influence(mixer, x, noise, **masks):
    """How much outputs move with inputs: array `(T, T)`, at most 1.

    Args:
        mixer: Layer.
        x: Array `(1, T, d)`.
        noise: Array `(T, d)`, the changes.
        **masks: Further arguments of the layer.
    """
    changed = np.repeat(x, len(noise), axis=0)
    tokens = np.arange(len(noise))
    changed[tokens, tokens] += noise
    moved = mixer(changed, **masks) - mixer(x, **masks)
    moved = np.linalg.norm(keras.ops.convert_to_numpy(moved), axis=-1).T
    return moved / moved.max()


def at_start(name, causal=False):
    """The influences of a mixer before training."""
    keras.utils.set_random_seed(0)
    mixer = keras_synth.mixers.get(name, 2, 8, 48)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, 48, 16)).astype("float32")
    masks = {"use_causal_mask": True} if causal else {}
    return influence(mixer, x, rng.normal(size=(48, 16)), **masks)


def draw_mixers(folder):
    for file, names in MIXERS.items():
        causal = file != "influence" and all(
            keras_synth.mixers.get(name, 2, 8, 48).supports_causal_mask
            for name in names
        )
        shape = (3, 6) if file == "influence" else (1 + causal, len(names))
        kinds = ("output i", "input j")
        panels = grid(folder / f"{file}.png", *shape, kinds, (2.2, 2.5))
        for name in names:
            show(next(panels), at_start(name), name)
        for name in names if causal else ():
            show(next(panels), at_start(name, causal=True), "causal")
        next(panels, None)  # saves


# --- gallery ---


def make_data(count, rng):
    """Tokens and, for each question, answers: see the tutorial First steps."""
    twice = np.tile(np.repeat(np.arange(KEYS), 2), (count, 1))
    keys = rng.permuted(twice, axis=1)
    values = rng.integers(VALUES, size=(count, LENGTH))
    same = keys[:, :, None] == keys[:, None, :]
    places = {
        "mirror": np.broadcast_to(np.arange(LENGTH)[::-1], keys.shape),
        "pointer": keys,
        "partner": np.argmax(same & ~np.eye(LENGTH, dtype=bool), axis=-1),
    }
    answers = {
        question: np.take_along_axis(values, place, axis=1)
        for question, place in places.items()
    }
    return 10 * keys + values, answers


def train(name, tokens, answers, tests, expected):
    """The accuracy of one mixer on one question, and its matrix `(T, T)`."""
    keras.utils.set_random_seed(1)
    mixer = keras_synth.mixers.get(
        name, num_heads=1, key_dim=32, max_length=LENGTH
    )
    inputs = keras.Input((LENGTH,), dtype="int32")
    embedded = keras.layers.Embedding(KEYS * VALUES, 32)(inputs)
    x = keras.layers.LayerNormalization()(embedded + mixer(embedded))
    x = keras.layers.Dense(64, activation="relu")(x)
    outputs = keras.layers.Dense(VALUES, activation="softmax")(x)
    model = keras.Model(inputs, outputs)
    model.compile(
        optimizer=keras.optimizers.Adam(1e-2),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    model.fit(tokens, answers, batch_size=64, epochs=EPOCHS, verbose=0)
    _, accuracy = model.evaluate(tests, expected, batch_size=500, verbose=0)
    sample = keras.Model(inputs, embedded)(tests[:1])
    x = keras.ops.convert_to_numpy(sample)
    if getattr(mixer, "supports_attention_scores", False):
        _, scores = mixer(x, return_attention_scores=True)
        return accuracy, keras.ops.convert_to_numpy(scores)[0, 0]
    noise = np.random.default_rng(0).normal(size=x.shape[1:])
    return accuracy, influence(mixer, x, x.std() * noise)


def file_name(name, question):
    words = re.sub(r"[^\w+]+", "_", name.replace("+", "_plus_"))
    return f"{re.sub('_+', '_', words).strip('_')}_{question}.png"


def draw_gallery(folder):
    rng = np.random.default_rng(0)
    tokens, answers = make_data(16_000, rng)
    tests, expected = make_data(1_000, rng)
    known = gallery_cards.trained()
    trained = {name: known.get(name, {}) for name in gallery_cards.names()}
    for name, results in trained.items():
        for question in gallery_cards.QUESTIONS:
            if question in results:
                continue
            accuracy, found = train(
                name, tokens, answers[question], tests, expected[question]
            )
            file = file_name(name, question)
            with writing(folder / file, "wb") as picture:
                root = np.clip(found, 0, 1) ** 0.5
                image.imsave(picture, root, vmin=0, vmax=1, cmap="viridis")
            results[question] = {"accuracy": round(accuracy, 4), "file": file}
            print(f"{name:55} {question:8} {accuracy:.0%}", flush=True)
    with writing(folder / "trained.json") as file:
        json.dump(trained, file, indent=1)
        file.write("\n")


PARTS = {
    "synthesizers": draw_synthesizers,
    "mixers": draw_mixers,
    "gallery": draw_gallery,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="+", choices=PARTS)
    for part in parser.parse_args().parts:
        PARTS[part](DOCS / part)
