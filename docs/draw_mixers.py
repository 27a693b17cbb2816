"""Draws which tokens influence which: docs/mixers/influence.png.

    python docs/draw_mixers.py

Each token in turn is changed, and the change of all outputs measured: row `i`,
column `j` of a picture is how much output `i` moves with input `j`. The weights
are those at the start, from a seed.
"""

import pathlib

import keras
import numpy as np
from matplotlib import figure

from keras_synth import mixers
from keras_synth.files import writing

LENGTH, HEADS, KEY_DIM = 48, 2, 8
NAMES = [
    "V",
    "R",
    "D",
    "relative(max_distance=8) + V",
    "gaussian",
    "local(window=4)",
    "strided(stride=8, window=3)",
    "longformer(window=4)",
    "big_bird(block_size=4, random_blocks=1, seed=2)",
    "linformer(rank=8)",
    "linear",
    "performer",
    "light_conv(width=7)",
    "dynamic_conv(width=7)",
    "mlp_mixer",
    "gmlp",
    "fnet",
    "relu",
]


def influence(name):
    """How much outputs move with inputs: array `(T, T)`, at most 1."""
    keras.utils.set_random_seed(0)
    mixer = mixers.get(name, HEADS, KEY_DIM, LENGTH)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, LENGTH, HEADS * KEY_DIM)).astype("float32")
    changed = np.repeat(x, LENGTH, axis=0)
    tokens = np.arange(LENGTH)
    changed[tokens, tokens] += rng.normal(size=x.shape[1:])
    moved = keras.ops.convert_to_numpy(mixer(changed) - mixer(x))
    moved = np.linalg.norm(moved, axis=-1).T  # (outputs, inputs)
    return moved / moved.max()


def main():
    rows, columns = 3, 6
    picture = figure.Figure(figsize=(15, 8.2), layout="constrained")
    axes = picture.subplots(rows, columns)
    for each, name in zip(axes.flat, NAMES, strict=True):
        # Square roots show what is small beside a token's own influence.
        each.imshow(influence(name) ** 0.5, cmap="magma", vmin=0, vmax=1)
        each.set_title(name.replace("(", "\n(", 1), fontsize=9)
        each.set_xticks([])
        each.set_yticks([])
    for each in axes[-1]:
        each.set_xlabel("input j")
    for each in axes[:, 0]:
        each.set_ylabel("output i")
    path = pathlib.Path(__file__).parent / "mixers" / "influence.png"
    with writing(path, "wb") as file:
        picture.savefig(file, format="png", dpi=110)
    print(path)


if __name__ == "__main__":
    main()
