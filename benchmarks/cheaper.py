"""Ways to make a trained encoder cheaper, and what each costs.

An encoder's attention is replaced by synthesizers, or heads or whole attention
layers are removed: a quarter, half, all of it; as they are, and after learning
from the encoder by `keras_synth.surgery.distill`, from training texts without
labels. What is removed is chosen by the same input dependence, at random, or,
of layers, as the first, middle or last ones, whichever score best on training
texts that nobody learns from.

    python benchmarks/cheaper.py scores --model all-MiniLM-L6-v2/ \\
        --data glue --tasks STS-B SST-2 --seeds 0 1 2
    KERAS_BACKEND=jax python benchmarks/cheaper.py speeds
    KERAS_BACKEND=torch python benchmarks/cheaper.py speeds --onnx
    python benchmarks/cheaper.py served --model all-MiniLM-L6-v2/ --data glue
    python benchmarks/cheaper.py report

`served` scores the unchanged encoder in each runtime, and times it and one with
half R. OpenVINO's integers need `pip install nncf`.

Rows go to CSV files in `--output`, and what is there is not measured again.
`report` writes the records of docs/speed_up.md from them.
"""

import csv
import itertools
import json
import os
import pathlib
import time

os.environ.setdefault("KERAS_BACKEND", "torch")

import measuring

ROOT = pathlib.Path(__file__).resolve().parents[1]
RECORDS = ROOT / "benchmarks" / "records" / "surgery"
SCORES = ["task", "seed", "way", "share", "steps", "split", "score", "minutes"]
SPEEDS = ["runtime", "length", "batch", "way", "share", "milliseconds"]
SERVED = ["what", "runtime", "value"]
WAYS = [
    "R",
    "D",
    "heads removed, by input dependence",
    "heads removed, at random",
    "first layers removed",
    "middle layers removed",
    "last layers removed",
]
LAYERS = {"first": 0.0, "middle": 0.5, "last": 1.0}


def main():
    parser = measuring.options(
        __doc__,
        {"ways": WAYS, "tasks": ["STS-B", "SST-2"]},
        tasks=["STS-B", "SST-2"],
        ways=WAYS,
        shares=[0.25, 0.5, 1.0],
        seeds=[0, 1, 2],
        steps=240,
        lengths=[32, 128, 512],
        batch_sizes=[1, 32],
        rounds=5,
        onnx=False,
        output=ROOT / "benchmarks" / "out",
    )
    parser.add_argument("part", choices=PARTS, help="what to do")
    parser.add_argument("--model", help="an encoder's preset")
    parser.add_argument("--data", help="folder of GLUE's tasks")
    args = parser.parse_args()
    if args.part in ("scores", "served") and None in (args.model, args.data):
        parser.error("scores need --model and --data")
    PARTS[args.part](args)


def scores(args):
    """Scores each way, as it is and distilled."""
    from cheaper_tasks import TASKS

    records = measuring.Records(args.output / "cheaper.csv", SCORES, SCORES[:6])
    for seed in args.seeds:
        for name in args.tasks:
            task = TASKS[name](args.model, f"{args.data}/{name}", seed)
            row = {"task": name, "seed": seed, "way": "V", "share": 0.0}
            _record(records, {**row, "steps": 0}, task, task.teacher, {})
            for share in args.shares:
                for way in args.ways:
                    row |= {"way": way, "share": share}
                    _score(records, row, task, args.steps)


def _score(records, row, task, steps):
    """Records a way's scores before training and, if it is worth it, after."""
    way, share = row["way"], row["share"]
    of_layers = way.endswith("layers removed")
    if share == 1.0 and (of_layers or way == "heads removed, at random"):
        return  # the same as all heads removed by input dependence
    untrained = {**row, "steps": 0}
    if not _is_done(records, untrained, task):
        _record(records, untrained, task, _student(task, way, share), {})
    if of_layers:
        found = {
            known["way"]: float(known["score"])
            for known in records.rows
            if known["split"] == "held out"
            and known["steps"] == "0"
            and known["way"].endswith("layers removed")
            and [known[k] for k in ("task", "seed", "share")]
            == [str(row[k]) for k in ("task", "seed", "share")]
        }
        if len(found) < len(LAYERS):
            return
        way = max(found, key=found.get)
    trained = {**row, "way": way, "steps": steps}
    if _is_done(records, trained, task):
        return
    student = _student(task, way, share)
    start = time.perf_counter()
    minutes = task.distill(student, steps)
    took = {"minutes": f"{minutes:.1f}"}
    _record(records, trained, task, student, took)
    print(f"{time.perf_counter() - start:.0f} s", flush=True)


def _is_done(records, row, task):
    splits = "held out", *task.splits
    return all({**row, "split": split} in records for split in splits)


def _student(task, way, share):
    if way in ("R", "D"):
        return task.static(share, way)
    if way.startswith("heads removed, "):
        by = way.removeprefix("heads removed, ")
        return task.without(task.heads(by, share))
    count = task.teacher.num_layers
    number = -int(-share * count // 1)
    first = round(LAYERS[way.split()[0]] * (count - number))
    return task.without(task.pairs(range(first, first + number)))


def _record(records, row, task, model, others):
    """Adds the scores of a model that are not there yet."""
    for split in ("held out", *task.splits):
        row = {**row, "split": split}
        if row not in records:
            found = task.score(model, split)
            records.append({**row, **others, "score": f"{found:.2f}"})
            print(records.rows[-1], flush=True)


def speeds(args):
    """Times each way, in Keras or in ONNX Runtime."""
    import cheaper_speeds
    import steps

    records = measuring.Records(args.output / "speeds.csv", SPEEDS, SPEEDS[:3])
    measure, runtime = cheaper_speeds.in_keras, steps.BACKEND
    if args.onnx:
        measure, runtime = cheaper_speeds.in_onnx_runtime, "onnx"
    for length, batch in itertools.product(args.lengths, args.batch_sizes):
        row = {"runtime": runtime, "length": length, "batch": batch}
        if row in records:
            continue
        timings = measuring.interleaved(measure(length, batch), args.rounds)
        for (where, way, share), timing in timings.items():
            row |= {"runtime": where, "way": way, "share": share}
            milliseconds = f"{1e3 * timing.median:.3f}"
            records.append({**row, "milliseconds": milliseconds})
            print(records.rows[-1], flush=True)


def served(args):
    """Scores the encoder itself in each runtime, and times one text."""
    import cheaper_speeds
    from cheaper_tasks import TASKS

    records = measuring.Records(args.output / "served.csv", SERVED, SERVED[:2])

    def record(what, runtime, value):
        row = {"what": what, "runtime": runtime, "value": f"{value:.2f}"}
        if row not in records:
            records.append(row)
            print(row, flush=True)

    for length in args.lengths:
        calls = cheaper_speeds.in_runtimes(length)
        timings = measuring.interleaved(calls, args.rounds)
        for (name, runtime), timing in timings.items():
            what = f"{name}, {length} tokens, ms"
            record(what, runtime, 1e3 * timing.median)
    for name in args.tasks:
        task = TASKS[name](args.model, f"{args.data}/{name}", args.seeds[0])
        for runtime, model in {"keras": task.teacher, **task.served()}.items():
            record(name, runtime, task.score(model, task.splits[-1]))


# --- the records --------------------------------------------------------------

SHARES = {"0.25": "a quarter", "0.5": "half", "1.0": "all"}


def report(args):
    """Writes the rows of the CSV files that there are into records."""
    for name, file, rows_of in (
        ("cheaper", "cheaper", _scored),
        ("cheaper_speed", "speeds", _timed),
        ("cheaper_served", "served", _served),
    ):
        if not (args.output / f"{file}.csv").exists():
            continue  # not measured
        path = RECORDS / f"{name}.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        with open(args.output / f"{file}.csv", encoding="utf-8") as lines:
            content["rows"] = [*rows_of([*csv.DictReader(lines)])]
        rows = ",\n".join(f"  {json.dumps(row)}" for row in content.pop("rows"))
        head = json.dumps(content, indent=1).removesuffix("\n}")
        with measuring.writing(path) as new:
            new.write(f'{head},\n "rows": [\n{rows}\n ]\n}}\n')


def _place(row):
    """The way and the share of a row in words."""
    way = row["way"]
    if row["share"] == "1.0" and "removed" in way:
        return "all attention removed"
    if row["share"] == "0.0":
        return "V" if way == "V" else way
    return f"{SHARES[row['share']]}: {way}"


def _scored(rows):
    """Scores on the last split of each task, by seed."""
    splits = {"STS-B": "test", "SST-2": "dev"}
    found = {}
    for row in rows:
        if row["split"] == splits[row["task"]]:
            place = row["task"], _place(row)
            field = "as_is" if row["steps"] == "0" else "distilled"
            own = found.setdefault(place, {})
            own.setdefault(field, []).append(float(row["score"]))
    for (task, name), fields in found.items():
        yield {"task": task, "name": name, **fields}


def _timed(rows):
    """Milliseconds of each runtime."""
    found = {}
    for row in rows:
        place = int(row["length"]), int(row["batch"]), _place(row)
        runtime = row["runtime"].replace(" ", "_")
        own = found.setdefault(place, {})
        own[runtime] = float(row["milliseconds"])
    for (length, batch, name), fields in sorted(
        found.items(), key=lambda x: x[0][:2]
    ):
        yield {"length": length, "batch": batch, "name": name, **fields}


def _served(rows):
    """Scores and times of each runtime."""
    for row in rows:
        runtime = row["runtime"].replace("_", " ")
        yield {**row, "runtime": runtime, "value": float(row["value"])}


PARTS = {
    "scores": scores,
    "speeds": speeds,
    "served": served,
    "report": report,
}

if __name__ == "__main__":
    main()
