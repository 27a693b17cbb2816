"""Draws the charts of the benchmark pages from records.

python docs/draw_benchmarks.py            # writes docs/benchmarks/charts
python docs/draw_benchmarks.py --check    # whether they are up to date
"""

import argparse
import pathlib
import re
import sys

DOCS = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]

import accelerator_tables as accelerators  # noqa: E402
import benchmark_charts as charts  # noqa: E402
import benchmark_records as records  # noqa: E402
from benchmark_tables import BACKENDS  # noqa: E402

FOLDER = DOCS / "benchmarks" / "charts"


def seeds(name, field, mixers):
    """Rows of a chart: the values of all seeds, and their mean."""
    content, rows = records.load(name), []
    for mixer in mixers:
        (row,) = records.select(content, {"name": mixer})
        mean = records.plain(records.PARTS["mean"](row[field]), 1)
        rows.append([mixer.split("(")[0], [row[field]], mean])
    return rows


def series(mixers, picks):
    """Rows of a chart: one mark for each `(record, keys, field)`."""
    return [
        [
            mixer,
            [
                [records.value(records.load(name), {**keys, "name": mixer}, x)]
                for name, keys, x in picks
            ],
            "",
        ]
        for mixer in mixers
    ]


def accuracy():
    tasks = [
        (
            "IMDB reviews: accuracy, %",
            ("imdb", "accuracy", ["V", "FR+V", "R+V", "Fix", "R", "D"]),
            {"range": [85.5, 88], "ticks": [86, 87, 88]},
        ),
        (
            "English to German (Multi30K): BLEU",
            (
                "multi30k",
                "bleu",
                ["light_conv(width=7)", "relative + V", "V", "R+V"],
            ),
            {"range": [34.8, 36.8], "ticks": [35, 36]},
        ),
        (
            "Reviews where word order decides: %",
            ("demo", "hard", ["R+V", "V", "D", "R"]),
            {"range": [49, 101], "ticks": [50, 75, 100]},
        ),
    ]
    return [
        {
            "kind": "dots",
            "title": title,
            "series": ["seeds"],
            "grid": "x",
            "rows": seeds(f"accuracy/{name}.json", field, mixers),
            "x": axis,
        }
        for title, (name, field, mixers), axis in tasks
    ]


def speed():
    mode = {"mode": "training", "length": "1024"}
    plain, half = {**mode, "mask": "plain"}, {"dtype": "bfloat16"}
    places = {
        "Training step on two CPU cores, float32": {
            title: ("speed/layers.json", {**plain, "backend": name}, "ratio")
            for name, title in BACKENDS.items()
        },
        "Training step on an H100 GPU, bfloat16": {
            "JAX, compiled": ("speed/gpu_jax.json", {**mode, **half}, "ratio"),
            "PyTorch, eager": (
                "speed/gpu_torch.json",
                {**plain, **half},
                "ratio",
            ),
        },
    }
    return [
        {
            "kind": "dots",
            "title": title,
            "series": [*picks],
            "grid": "x",
            "rows": series(["R", "FR", "D", "V", "R+V", "D+V"], picks.values()),
            "x": {
                "log": True,
                "title": "slower ← MultiHeadAttention = 1 → faster",
                "range": [0.4, 6],
                "ticks": [0.5, 1, 2, 4],
            },
            "reference": 1,
        }
        for title, picks in places.items()
    ]


def memory():
    mixers = ["MultiHeadAttention", "V", "D", "FR", "R", "R+V"]
    picks = [
        ("memory/training_step.json", {"backend": name}, "mib")
        for name in BACKENDS
    ]
    return [
        {
            "kind": "dots",
            "title": "Memory of a training step, MiB",
            "series": [*BACKENDS.values()],
            "grid": "x",
            "rows": series(mixers, picks),
            "x": {
                "log": True,
                "range": [300, 5000],
                "ticks": [500, 1000, 2000, 4000],
            },
        }
    ]


def length():
    content, lines = records.load("speed/growth.json"), {}
    for name in (
        *("MultiHeadAttention", "R", "big_bird", "linear"),
        *("local(window=64)", "fnet"),
    ):
        wanted = {"backend": "torch", "mode": "training", "name": name}
        lines[name.split("(")[0]] = [
            [row["length"], row["milliseconds"]]
            for row in records.select(content, wanted)
        ]
    return [
        {
            "kind": "curves",
            "title": "Training step of one text on PyTorch, one CPU core",
            "said": "milliseconds",
            "lines": lines,
            "x": {
                "log": True,
                "title": "tokens",
                "range": [460, 18000],
                "ticks": [512, 2048, 8192],
            },
            "y": {"log": True, "range": [1.5, 5000], "ticks": [10, 100, 1000]},
        }
    ]


def costs():
    discs = {
        row["name"].split("(")[0]: [row["ratio"], row["accuracy"], row["mib"]]
        for row in records.load("accuracy/listops.json")["rows"]
        if "ratio" in row
    }
    most = max(memory for *_, memory in discs.values())
    return [
        {
            "kind": "discs",
            "title": "ListOps, up to 200 tokens, PyTorch, one CPU core",
            "discs": discs,
            "area": f"area: memory of a step, at most {most:.0f} MiB",
            "x": {
                "log": True,
                "title": "speed of a layer's training step, V is 1",
                "range": [0.12, 11],
                "ticks": [0.25, 0.5, 1, 2, 4, 8],
            },
            "y": {
                "title": "accuracy, %",
                "range": [40, 47],
                "ticks": [*range(40, 48)],
            },
        }
    ]


def static_heads():
    scores = records.load("surgery/scores.json")["rows"]
    parts = ("as they are", "distilled")
    lines = {
        part: sorted(
            [row["static"], row["spearman"]]
            for row in scores
            if row["part"] == part
            and re.fullmatch("R.*by input dependence|the model", row["name"])
        )
        for part in parts
    }
    ways = {}
    for row in scores:
        if row["static"] == 36:
            name = row["name"].removesuffix(", by input dependence")
            found = ways.setdefault(name, [[], []])
            found[parts.index(row["part"])].append(row["spearman"])
    speeds = {}
    for row in records.load("surgery/speed.json")["rows"]:
        if row["name"].endswith("folded"):
            name = (
                f"{row['name'].split()[0]}, T {row['length']}, B {row['batch']}"
            )
            speeds.setdefault(name, {})[row["backend"]] = row["speed"]
    teacher = lines[parts[0]][0][1]
    return [
        {
            "kind": "curves",
            "title": "Heads that depend least on their input, of 72",
            "said": "Spearman's correlation",
            "lines": lines,
            "x": {
                "title": "static heads",
                "range": [-2, 74],
                "ticks": [0, 18, 36, 54, 72],
            },
            "y": {
                "range": [0.77, 0.875],
                "ticks": [0.78, 0.8, 0.82, 0.84, 0.86],
            },
        },
        {
            "kind": "dots",
            "title": "36 static heads (dashed: none)",
            "series": [*parts],
            "grid": "x",
            "rows": [[name, found, ""] for name, found in ways.items()],
            "x": {"range": [0.829, 0.87], "ticks": [0.83, 0.84, 0.85, 0.86]},
            "reference": teacher,
        },
        {
            "kind": "dots",
            "title": "Speed, folded; V is 1",
            "series": [*BACKENDS.values()],
            "grid": "x",
            "rows": [
                [
                    name,
                    [[found[backend]] for backend in BACKENDS],
                    f"{found['bound']:.2f}",
                ]
                for name, found in speeds.items()
            ],
            "x": {
                "title": "at the right: the ratio of multiplications",
                "range": [0.98, 1.45],
                "ticks": [1, 1.1, 1.2, 1.3, 1.4],
            },
            "reference": 1,
        },
    ]


def wanted():
    """Returns path of each chart -> its panels and palette."""
    named = {
        f"{make.__name__}_{{}}.svg": make()
        for make in (accuracy, speed, memory, length, costs, static_heads)
    }
    for name, content in accelerators.load().items():
        named[accelerators.chart_name(name, "{}")] = accelerators.panels(
            content
        )
    return {
        FOLDER / name.format(palette): (panels, palette)
        for name, panels in named.items()
        for palette in charts.PALETTES
        if panels
    }


def stale():
    """Returns paths of charts that do not show what the records hold."""
    present = {
        path: charts.panels_of(path.read_text(encoding="utf-8"))
        for path in FOLDER.glob("*.svg")
    }
    panels = {path: panels for path, (panels, _) in wanted().items()}
    return [
        path
        for path in sorted({*panels, *present})
        if present.get(path) != panels.get(path)
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if it would"
    )
    if parser.parse_args().check:
        if names := [path.name for path in stale()]:
            sys.exit(
                f"{', '.join(names)}: not what benchmarks/records hold; run "
                "python docs/draw_benchmarks.py"
            )
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in FOLDER.glob("*.svg"):
        path.unlink()
    for path, chart in wanted().items():
        path.write_text(charts.svg(*chart), encoding="utf-8")


if __name__ == "__main__":
    main()
