"""Draws score, speed and memory of mixers: docs/results/imdb_mixers.png.

    python docs/draw_results.py

Reads docs/results/imdb_mixers.csv; docs/results.md says where its figures come
from. Area is memory, as in the figure of Long Range Arena (Tay et al., 2020).
"""

import csv
import pathlib

import numpy as np
from matplotlib import figure

from keras_synth.files import writing

FOLDER = pathlib.Path(__file__).with_name("results")
COLORS = {
    "Synthesizer": "C0",
    "with dot product": "C1",
    "sparse": "C2",
    "kernel, low rank": "C3",
    "no attention": "C4",
}
SEEDS = ("seed 0", "seed 1", "seed 2")


def read(path):
    """Rows of the table, scores as arrays."""
    with open(path, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["scores"] = np.array([float(row[seed]) for seed in SEEDS])
    return rows


def main():
    rows = read(FOLDER / "imdb_mixers.csv")
    reference = next(row for row in rows if row["mixer"] == "V")
    picture = figure.Figure(figsize=(10, 7), layout="constrained")
    axes = picture.subplots()
    for row in rows:
        speed = float(reference["seconds"]) / float(row["seconds"])
        mean = row["scores"].mean()
        error = row["scores"].std(ddof=1) / len(SEEDS) ** 0.5
        color = COLORS[row["family"]]
        axes.errorbar(speed, mean, error, color=color, alpha=0.6)
        mebibytes = float(row["bytes"]) / 2**20
        axes.scatter(speed, mean, mebibytes / 2, color=color, alpha=0.35)
        axes.annotate(
            row["mixer"].split("(")[0],
            (speed, mean),
            fontsize=8,
            ha="center",
            va="center",
        )
    for family, color in COLORS.items():
        axes.scatter([], [], color=color, alpha=0.5, label=family)
    axes.set_xscale("log")
    axes.set_xlabel("training steps per second, V = 1")
    axes.set_ylabel("test accuracy on IMDB, %")
    axes.set_title("area: memory of a training step")
    axes.legend()
    with writing(FOLDER / "imdb_mixers.png", "wb") as file:
        picture.savefig(file, dpi=110)


if __name__ == "__main__":
    main()
