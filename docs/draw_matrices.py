"""Draws attention weights: docs/synthesizers/*.png.

    python docs/draw_matrices.py

A layer attends within two sequences of 24 tokens. The second has other tokens
at positions 8 to 11. Left are the weights of one head for the first sequence,
in the middle those for the second, right their absolute difference: it shows
what the weights depend on. Tables are drawn from a seed, with larger initial
values than a layer starts with, so that the structure can be seen.
"""

import pathlib

import keras
import numpy as np
from matplotlib import figure

import keras_synth
from keras_synth.compare.files import writing

LENGTH, HEADS, KEY_DIM = 24, 4, 8
GREY = "#808080"  # legible on white and on black
CHANGED = slice(8, 12)
WIDE = "initializer={'class_name': 'RandomNormal', 'config': {'stddev': 1.5}}"
NARROW = WIDE.replace("1.5", "0.5")
# File -> title, synthesizer and head of each row.
PICTURES = {
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
}
# Without tokens: title, synthesizer and head of each panel.
HAND_MADE = [
    ("gaussian, offset -1", "gaussian", 0),
    ("gaussian, offset 0", "gaussian", 1),
    ("previous", "pattern(patterns=('previous',))", 0),
    ("window", "pattern(patterns=('window',))", 0),
    ("left", "pattern(patterns=('left',))", 0),
    ("end", "pattern(patterns=('end',))", 0),
]


def sequences():
    """Two sequences of random tokens that differ in some."""
    rng = np.random.default_rng(0)
    tokens = rng.normal(size=(2, LENGTH, HEADS * KEY_DIM)).astype("float32")
    same = np.ones(LENGTH, bool)
    same[CHANGED] = False
    tokens[1, same] = tokens[0, same]
    return 1.3 * tokens


def weights(name, head):
    """Attention weights of a head: `(2, T, T)`."""
    keras.utils.set_random_seed(0)
    layer = keras_synth.layers.SyntheticAttention(
        HEADS, KEY_DIM, synthesizer=name, max_length=LENGTH
    )
    _, scores = layer(sequences(), return_attention_scores=True)
    return keras.ops.convert_to_numpy(scores)[:, head]


def show(axes, matrix, title, largest=1.0):
    # Square roots show small weights beside large ones.
    axes.imshow(matrix**0.5, cmap="magma", vmin=0, vmax=largest**0.5)
    axes.set_title(title, fontsize=8, color=GREY)
    axes.set_xticks([])
    axes.set_yticks([])


def save(made, name):
    path = pathlib.Path(__file__).parent / "synthesizers" / f"{name}.png"
    with writing(path, "wb") as file:
        made.savefig(file, format="png", dpi=200, transparent=True)
    print(path)


def main():
    for name, rows in PICTURES.items():
        made = figure.Figure((6.6, 2.35 * len(rows)), layout="constrained")
        panels = made.subplots(len(rows), 3, squeeze=False)
        for line, (title, synthesizer, head) in zip(panels, rows, strict=True):
            first, second = weights(synthesizer, head)
            largest = first.max()
            show(line[0], first, title, largest)
            show(line[1], second, "tokens 8 to 11 changed", largest)
            show(line[2], abs(first - second), "difference", largest)
            for axes in line[1:]:
                axes.set_yticks([CHANGED.start, CHANGED.stop - 1])
                axes.tick_params(labelsize=7, colors=GREY)
            line[0].set_ylabel("query i", color=GREY)
        for axes in panels[-1]:
            axes.set_xlabel("key j", color=GREY)
        save(made, name)
    made = figure.Figure((6.6, 4.7), layout="constrained")
    panels = made.subplots(2, 3)
    for axes, (title, synthesizer, head) in zip(
        panels.flat, HAND_MADE, strict=True
    ):
        show(axes, weights(synthesizer, head)[0], title)
    for axes in panels[-1]:
        axes.set_xlabel("key j", color=GREY)
    for axes in panels[:, 0]:
        axes.set_ylabel("query i", color=GREY)
    save(made, "hand_made")


if __name__ == "__main__":
    main()
