"""Draws the charts of the benchmark pages from records.

python docs/draw_benchmarks.py    # writes docs/benchmarks/charts
"""

import argparse
import pathlib
import re
import statistics

import accelerator_tables as accelerators
import benchmark_charts as charts
import benchmark_records as records
from benchmark_tables import BACKENDS

DOCS = pathlib.Path(__file__).resolve().parent
FOLDER = DOCS / "benchmarks" / "charts"
IMDB = ["V", "FR+V", "R+V", "Fix", "R", "D"]
TEXTS = ["light_conv(width=7)", "relative + V", "V", "R+V"]
ORDER = ["R+V", "V", "D", "R"]
WAYS = {
    "R": "R",
    "D": "D",
    "heads removed": "heads removed, by input dependence",
    "layers removed": r"\w+ layers removed",
}


def dots(title, names, rows, **options):
    axis = options.pop("x", {})
    head = {"kind": "dots", "title": title, "series": [*names], "rows": rows}
    return {**head, "x": axis, **options}


def row_of_seeds(label, values):
    """A row of a chart: the values of all seeds, and their mean."""
    mean = records.plain(records.PARTS["mean"](values), 1)
    return [label, [values], mean]


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
    panels = []
    for title, name, field, mixers in (
        ("IMDB reviews: accuracy, %", "imdb", "accuracy", IMDB),
        ("English to German (Multi30K): BLEU", "multi30k", "bleu", TEXTS),
        ("Reviews where word order decides: %", "demo", "hard", ORDER),
    ):
        content = records.load(f"accuracy/{name}.json")
        rows = [
            row_of_seeds(x.split("(")[0], row[field])
            for x in mixers
            for row in records.select(content, {"name": x})
        ]
        panels.append(dots(title, ["seeds"], rows))
    return panels


def speed():
    mode = {"mode": "training", "length": "1024"}
    plain = {**mode, "mask": "plain"}
    gpu = {
        title: (
            f"nvidia-h200_{name}.json",
            {**plain, "part": "layers", "way": way},
            "ratio",
        )
        for title, name, way in (
            ("JAX, compiled", "jax_fbc9a799", "compiled"),
            ("PyTorch, eager", "torch_3c1ee934", "eager"),
        )
    }
    cpu = {
        title: ("speed/layers.json", {**plain, "backend": name}, "ratio")
        for name, title in BACKENDS.items()
    }
    mixers = ["R", "FR", "D", "V", "R+V", "D+V"]
    axis = {"log": 2, "title": "slower ← MultiHeadAttention = 1 → faster"}
    axis["range"] = [0.4, 6]  # of both
    return [
        dots(title, picks, series(mixers, picks.values()), x=axis, reference=1)
        for title, picks in (
            ("Training step on one CPU core, float32", cpu),
            ("Training step on an H200 GPU, bfloat16", gpu),
        )
    ]


def memory():
    mixers = ["MultiHeadAttention", "V", "D", "FR", "R", "R+V"]
    name = "memory/training_step.json"
    picks = [(name, {"backend": backend}, "mib") for backend in BACKENDS]
    rows = series(mixers, picks)
    title = "Memory of a training step, MiB"
    return [dots(title, BACKENDS.values(), rows, x={"log": 2})]


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
            "title": "Training step of one text, PyTorch, one core",
            "lines": lines,
            "x": {"log": 2, "title": "tokens"},
            "y": {"log": 10, "title": "milliseconds"},
        }
    ]


def attention_needs():
    content = records.load("accuracy/attention_needs.json")
    panels = []
    for task in dict.fromkeys(row["task"] for row in content["rows"]):
        own = records.select(content, {"task": task})
        rows = [row_of_seeds(row["name"], row["right"]) for row in own]
        x = {"title": "right answers, %", "range": [-5, 105]}
        panels.append(dots(task.capitalize(), [""], rows, x=x))
    return panels


def cheaper():
    """Scores of distilled encoders by their time, one text of 128 tokens."""
    content = records.load("surgery/cheaper.json")
    times = {
        row["name"]: row
        for row in records.load("surgery/cheaper_speed.json")["rows"]
        if row["length"] == 128 and row["batch"] == 1
    }

    def line(task, way, pattern, runtime):
        points, shares = [], f"(a quarter|half): {pattern}"
        for row in records.select(content, {"task": task}):
            name, found = row["name"], re.fullmatch(shares, row["name"])
            if found and "distilled" in row:
                name = f"{found[1]}: {way}"
            elif name != "V":
                continue
            mean = statistics.fmean(row.get("distilled", row["as_is"]))
            points.append([times[name][runtime], round(mean, 3)])
        return points

    panels = []
    for task in dict.fromkeys(row["task"] for row in content["rows"]):
        for runtime, words in (("onnx", "float32"), ("onnx_int8", "int8")):
            panels.append(
                {
                    "kind": "curves",
                    "title": f"{task}, ONNX Runtime, {words}",
                    "lines": {
                        way: line(task, way, pattern, runtime)
                        for way, pattern in WAYS.items()
                    },
                    "x": {"title": "milliseconds, one text of 128 tokens"},
                    "y": {"title": "score", "ticks": 6},
                }
            )
    return panels


def wanted():
    """Returns path of each chart -> its panels and palette."""
    named = {
        f"{make.__name__}_{{}}.svg": make()
        for make in (
            accuracy,
            speed,
            memory,
            length,
            cheaper,
            attention_needs,
        )
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


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    for path in FOLDER.glob("*.svg"):
        path.unlink()
    for path, chart in wanted().items():
        path.write_text(charts.svg(*chart), encoding="utf-8")
