"""Draws score, speed and memory of mixers: docs/results/imdb_mixers.png.

    python docs/draw_results.py

Reads docs/results/imdb_mixers.csv; docs/results.md says where its figures come
from. Area is memory, as in the figure of Long Range Arena (Tay et al., 2020).
"""

import csv
import pathlib

import numpy as np
from matplotlib import figure, transforms

from keras_synth.files import writing

FOLDER = pathlib.Path(__file__).with_name("results")
COLORS = {
    "Synthesizer": "C0",
    "with dot product": "C1",
    "sparse": "C2",
    "kernel, low rank": "C3",
    "no attention": "C4",
}
LOWEST = 83.0  # of the axis of scores
SEEDS = ("seed 0", "seed 1", "seed 2")


def read(path):
    """Rows of the table, scores as arrays."""
    with open(path, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["scores"] = np.array([float(row[seed]) for seed in SEEDS])
    return rows


def label(axes, text, point, taken):
    """Writes a name beside a point, where no other name or point is."""
    unit = axes.figure.dpi / 72  # pixels of a typographic point
    half = np.array([2.4 * len(text) + 1, 5]) * unit
    place = axes.transData.transform(point)
    for distance in range(9, 120, 6):
        for angle in np.radians(np.arange(90, 450, 30)):
            along = np.array([np.cos(angle), np.sin(angle)])
            reach = distance * unit + abs(along[0]) * half[0]
            middle = place + along * reach
            box = transforms.Bbox([middle - half, middle + half])
            if any(box.overlaps(other) for other in taken):
                continue
            taken.append(box)
            axes.annotate(
                text,
                point,
                xytext=axes.transData.inverted().transform(middle),
                fontsize=8,
                ha="center",
                va="center",
                arrowprops={"arrowstyle": "-", "lw": 0.4, "alpha": 0.5},
            )
            return


def main():
    rows = read(FOLDER / "imdb_mixers.csv")
    reference = next(row for row in rows if row["mixer"] == "V")
    picture = figure.Figure(figsize=(10, 7), layout="constrained")
    axes = picture.subplots()
    axes.set_xscale("log")
    axes.set_xlim(0.15, 7)
    axes.set_ylim(LOWEST, 88.2)
    axes.set_xticks([0.2, 0.5, 1, 2, 5], ["0.2", "0.5", "1", "2", "5"])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("training steps per second, V = 1")
    axes.set_ylabel("test accuracy on IMDB, %, with standard errors")
    axes.set_title("area: memory of a training step")
    for family, color in COLORS.items():
        axes.scatter([], [], color=color, alpha=0.5, label=family)
    axes.legend(loc="lower left")
    picture.draw_without_rendering()
    taken, points = [], []
    for row in rows:
        speed = float(reference["seconds"]) / float(row["seconds"])
        mean = row["scores"].mean()
        error = row["scores"].std(ddof=1) / len(SEEDS) ** 0.5
        name = row["mixer"].split("(")[0]
        name = "V, fixed" if row["mixer"] == "V(fixed=True)" else name
        color = COLORS[row["family"]]
        if mean < LOWEST:  # its standard error is wider than the picture
            name, mean, error = f"{name}: {mean:.1f} +-{error:.1f}", LOWEST, 0
        axes.errorbar(speed, mean, error, color=color, alpha=0.6)
        size = float(row["bytes"]) / 2**20 / 2
        axes.scatter(speed, mean, size, color=color, alpha=0.35, clip_on=False)
        points.append((name, (speed, mean)))
    for _, point in points:
        x, y = axes.transData.transform(point)
        taken.append(transforms.Bbox([[x - 8, y - 8], [x + 8, y + 8]]))
    for name, point in points:
        label(axes, name, point, taken)
    with writing(FOLDER / "imdb_mixers.png", "wb") as file:
        picture.savefig(file, dpi=110)


if __name__ == "__main__":
    main()
