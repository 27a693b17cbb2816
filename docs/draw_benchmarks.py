"""Draws the charts of the benchmark pages from records.

python docs/draw_benchmarks.py            # writes docs/benchmarks/charts
python docs/draw_benchmarks.py --check    # whether they are up to date
"""

import argparse
import pathlib
import statistics
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


def dots(title, names, rows, **options):
    axis = options.pop("x", {})
    return {
        "kind": "dots",
        "title": title,
        "series": [*names],
        "rows": rows,
        "x": axis,
        **options,
    }


def accuracy():
    imdb = ["V", "FR+V", "R+V", "Fix", "R", "D"]
    texts = ["light_conv(width=7)", "relative + V", "V", "R+V"]
    order = ["R+V", "V", "D", "R"]
    return [
        dots(title, ["seeds"], seeds(f"accuracy/{name}.json", field, mixers))
        for title, name, field, mixers in (
            ("IMDB reviews: accuracy, %", "imdb", "accuracy", imdb),
            ("English to German (Multi30K): BLEU", "multi30k", "bleu", texts),
            ("Reviews where word order decides: %", "demo", "hard", order),
        )
    ]


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
            ("JAX, compiled", "jax_1d5741ab", "compiled"),
            ("PyTorch, eager", "torch_bff3d54b", "eager"),
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
        rows = [
            [
                row["name"],
                [row["right"]],
                records.plain(records.PARTS["mean"](row["right"]), 1),
            ]
            for row in records.select(content, {"task": task})
        ]
        x = {"title": "right answers, %", "range": [-5, 105]}
        panels.append(dots(task.capitalize(), [""], rows, x=x))
    return panels


def cheaper():
    """Scores of distilled encoders by their time, one text of 128 tokens."""
    scores = records.load("surgery/cheaper.json")["rows"]
    times = {
        row["name"]: row
        for row in records.load("surgery/cheaper_speed.json")["rows"]
        if row["length"] == 128 and row["batch"] == 1
    }

    def point(task, ways, name, runtime):
        own = {x["name"]: x for x in scores if x["task"] == task}
        found = [own[x] for x in ways if x in own]
        best = [x for x in found if "distilled" in x or name == "V"]
        if not best:
            return []
        values = best[0].get("distilled", best[0]["as_is"])
        return [[times[name][runtime], round(statistics.fmean(values), 3)]]

    def line(task, way, runtime):
        ways = [way]
        if way == "layers removed":
            ways = [f"{x} {way}" for x in ("first", "middle", "last")]
        elif way == "heads removed":
            ways = [f"{way}, by input dependence"]
        points = point(task, ["V"], "V", runtime)
        for share in ("a quarter", "half"):
            names = [f"{share}: {x}" for x in ways]
            points += point(task, names, f"{share}: {way}", runtime)
        return points

    panels = []
    for task in dict.fromkeys(row["task"] for row in scores):
        for runtime, words in (("onnx", "float32"), ("onnx_int8", "int8")):
            ways = ("R", "D", "heads removed", "layers removed")
            panels.append(
                {
                    "kind": "curves",
                    "title": f"{task}, ONNX Runtime, {words}",
                    "lines": {way: line(task, way, runtime) for way in ways},
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
