"""Draws which tokens influence which: docs/mixers/*.png.

    python docs/draw_mixers.py

`influence.png` shows all mixers, the other pictures a family each, below in
their causal form.

Each token in turn is changed, and the change of all outputs measured: row `i`,
column `j` of a picture is how much output `i` moves with input `j`. The weights
are those at the start, from a seed.
"""

import pathlib

import keras
import numpy as np
from matplotlib import figure

from keras_synth import mixers
from keras_synth.compare.files import writing

LENGTH, HEADS, KEY_DIM = 48, 2, 8
GREY = "#808080"  # legible on white and on black
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
FAMILIES = {
    "sparse": [
        "local(window=4)",
        "strided(stride=8, window=3)",
        "longformer(window=4)",
        "big_bird(block_size=4, seed=2)",
    ],
    "linformer": ["V", "linformer(rank=8)", "linformer(rank=2)"],
    "kernels": ["V", "linear", "performer"],
    "pairs": ["V", "additive", "relu"],
    "convolutions": [
        "light_conv(width=7)",
        "dynamic_conv(width=7)",
        "light_conv(width=15)",
    ],
    "mlp": ["mlp_mixer", "gmlp"],
    "fnet": ["fnet"],
}


def influence(name, causal=False):
    """How much outputs move with inputs: array `(T, T)`, at most 1."""
    keras.utils.set_random_seed(0)
    mixer = mixers.get(name, HEADS, KEY_DIM, LENGTH)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, LENGTH, HEADS * KEY_DIM)).astype("float32")
    changed = np.repeat(x, LENGTH, axis=0)
    tokens = np.arange(LENGTH)
    changed[tokens, tokens] += rng.normal(size=x.shape[1:])
    masks = {"use_causal_mask": True} if causal else {}
    moved = mixer(changed, **masks) - mixer(x, **masks)
    moved = keras.ops.convert_to_numpy(moved)
    moved = np.linalg.norm(moved, axis=-1).T  # (outputs, inputs)
    return moved / moved.max()


def show(axes, moved, title):
    # Square roots show what is small beside a token's own influence.
    axes.imshow(moved**0.5, cmap="magma", vmin=0, vmax=1)
    title = title.replace("(", "\n(", 1)
    axes.set_title(title, fontsize=9, color=GREY)
    axes.set_xticks([])
    axes.set_yticks([])


def save(made, axes, name, dpi):
    for each in axes[-1]:
        each.set_xlabel("input j", color=GREY)
    for each in axes[:, 0]:
        each.set_ylabel("output i", color=GREY)
    path = pathlib.Path(__file__).parent / "mixers" / f"{name}.png"
    with writing(path, "wb") as file:
        made.savefig(file, format="png", dpi=dpi, transparent=True)
    print(path)


def draw_all():
    made = figure.Figure(figsize=(15, 8.2), layout="constrained")
    axes = made.subplots(3, 6)
    for each, name in zip(axes.flat, NAMES, strict=True):
        show(each, influence(name), name)
    save(made, axes, "influence", dpi=130)


def draw_family(family, names):
    causal = all(
        mixers.get(name, HEADS, KEY_DIM, LENGTH).supports_causal_mask
        for name in names
    )
    rows = 1 + causal
    size = (2.2 * len(names), 2.5 * rows)
    made = figure.Figure(figsize=size, layout="constrained")
    axes = made.subplots(rows, len(names), squeeze=False)
    for column, name in zip(axes.T, names, strict=True):
        show(column[0], influence(name), name)
        if causal:
            show(column[1], influence(name, causal=True), "causal")
    save(made, axes, family, dpi=200)


def main():
    draw_all()
    for family, names in FAMILIES.items():
        draw_family(family, names)


if __name__ == "__main__":
    main()
