"""Draws the charts of the benchmark pages from records.

python docs/draw_benchmarks.py            # writes docs/benchmarks/charts
python docs/draw_benchmarks.py --check    # whether they are up to date
"""

import argparse
import pathlib
import sys

DOCS = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]

import benchmark_charts as charts  # noqa: E402
import benchmark_records as records  # noqa: E402
import benchmark_tables as tables  # noqa: E402

CHARTS = DOCS / "benchmarks" / "charts"
BACKENDS = ("jax", "tensorflow", "torch")


def seeds(name, field, names, digits):
    """Rows of a chart: the seeds of each, and their mean."""
    content = records.load(name)
    rows = []
    for mixer in names:
        (row,) = records.select(content, {"name": mixer})
        mean = records.plain(records.PARTS["mean"](row[field]), digits)
        rows.append((mixer.split("(")[0], [row[field]], mean))
    return rows


def series(names, picks):
    """Rows of a chart: one mark for each pick.

    Args:
        names: Sequence of strings, names of rows.
        picks: List of `(record, keys, field)`.
    """
    rows = []
    for name in names:
        values = [
            [records.value(records.load(record), keys | {"name": name}, field)]
            for record, keys, field in picks
        ]
        rows.append((name, values, ""))
    return rows


def accuracy(palette):
    panels = [
        {
            "title": "IMDB reviews: accuracy, %",
            "rows": seeds(
                "accuracy/imdb.json",
                "accuracy",
                ["V", "FR+V", "R+V", "Fix", "R", "D"],
                1,
            ),
            "range": (85.5, 88),
            "ticks": [86, 87, 88],
        },
        {
            "title": "English to German (Multi30K): BLEU",
            "rows": seeds(
                "accuracy/multi30k.json",
                "bleu",
                ["light_conv(width=7)", "relative + V", "V", "R+V"],
                1,
            ),
            "range": (34.8, 36.8),
            "ticks": [35, 36],
        },
        {
            "title": "Reviews where word order decides: %",
            "rows": seeds(
                "accuracy/demo.json", "hard", ["R+V", "V", "D", "R"], 1
            ),
            "range": (50, 100),
            "ticks": [50, 75, 100],
        },
    ]
    for panel in panels:
        panel |= {"series": ["seeds"], "end": "mean"}
    return charts.dots(
        "Test scores of attention variants on three tasks, a dot for each seed",
        panels,
        palette,
    )


def speed(palette):
    names = ["R", "FR", "D", "V", "R+V", "D+V"]
    common = {"mode": "training", "mask": "plain", "length": "1024"}
    jax = {"mode": "training", "dtype": "bfloat16", "length": "1024"}
    axis = {
        "log": True,
        "range": (0.4, 6),
        "ticks": [0.5, 1, 2, 4],
        "reference": (1, "slower ← MultiHeadAttention → faster"),
    }
    panels = [
        {
            "title": "Training step on two CPU cores, float32",
            "series": [tables.BACKENDS[x] for x in BACKENDS],
            "rows": series(
                names,
                [
                    ("speed/layers.json", common | {"backend": x}, "ratio")
                    for x in BACKENDS
                ],
            ),
            **axis,
        },
        {
            "title": "Training step on an H100 GPU, bfloat16",
            "series": ["JAX, compiled", "PyTorch, eager"],
            "rows": series(
                names,
                [
                    ("speed/gpu_jax.json", jax, "ratio"),
                    ("speed/gpu_torch.json", jax | common, "ratio"),
                ],
            ),
            **axis,
        },
    ]
    return charts.dots(
        "Speed of a training step at 1,024 tokens relative to "
        "MultiHeadAttention, on CPUs and on a GPU",
        panels,
        palette,
    )


def memory(palette):
    panel = {
        "title": "Memory of a training step, MiB",
        "series": [tables.BACKENDS[x] for x in BACKENDS],
        "rows": series(
            ["MultiHeadAttention", "V", "D", "FR", "R", "R+V"],
            [
                ("memory/training_step.json", {"backend": x}, "mib")
                for x in BACKENDS
            ],
        ),
        "log": True,
        "range": (300, 5000),
        "ticks": [500, 1000, 2000, 4000],
    }
    return charts.dots(
        "Memory of a training step of one layer on three backends",
        [panel],
        palette,
    )


def length(palette):
    names = {
        "MultiHeadAttention": "MultiHeadAttention",
        "R": "R",
        "big_bird": "big_bird",
        "linear": "linear",
        "local(window=64)": "local",
        "fnet": "fnet",
    }
    content = records.load("speed/growth.json")
    lines = {}
    for name, label in names.items():
        wanted = {"backend": "torch", "mode": "training", "name": name}
        rows = records.select(content, wanted)
        lines[label] = [(row["length"], row["milliseconds"]) for row in rows]
    panel = {
        "title": "Training step of one text on PyTorch, one CPU core",
        "lines": lines,
        "x": {
            "title": "tokens",
            "range": (460, 18000),
            "ticks": [512, 2048, 8192],
        },
        "y": {
            "title": "milliseconds",
            "range": (1.5, 5000),
            "ticks": [10, 100, 1000],
        },
    }
    return charts.curves(
        "Time of a training step over the number of tokens", panel, palette
    )


def costs(palette):
    content = records.load("accuracy/listops.json")
    discs = {
        row["name"].split("(")[0]: (row["ratio"], row["accuracy"], row["mib"])
        for row in content["rows"]
        if "ratio" in row
    }
    most = max(memory for *_, memory in discs.values())
    panel = {
        "title": "ListOps, up to 200 tokens, PyTorch, one CPU core",
        "discs": discs,
        "area": f"area: memory of a step, at most {most:.0f} MiB",
        "x": {
            "title": "speed of a layer's training step, V is 1",
            "range": (0.12, 11),
            "ticks": [0.25, 0.5, 1, 2, 4, 8],
        },
        "y": {
            "title": "accuracy, %",
            "range": (40, 47),
            "ticks": range(40, 48),
        },
    }
    return charts.costs(
        "Accuracy on ListOps over the speed of a training step", panel, palette
    )


def drawn():
    """Name of each chart's file -> its content."""
    return {
        f"{draw.__name__}_{palette}.svg": draw(palette)
        for draw in (accuracy, speed, memory, length, costs)
        for palette in charts.PALETTES
    }


def wanted():
    """Path -> content of all charts."""
    return {CHARTS / name: svg for name, svg in drawn().items()}


def stale():
    """Paths that differ from what the records say."""
    return [
        path
        for path, text in wanted().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if it would"
    )
    if parser.parse_args().check:
        names = [path.relative_to(DOCS).as_posix() for path in stale()]
        if names:
            sys.exit(
                f"{', '.join(names)}: not what benchmarks/records hold; run "
                "python docs/draw_benchmarks.py"
            )
        return
    CHARTS.mkdir(parents=True, exist_ok=True)
    for path, text in wanted().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
