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

Rows go to files in `--output`, and what is there is not measured again.
`report` writes the records of docs/speed_up.md from them.
"""

import functools
import itertools
import json
import os
import pathlib

os.environ.setdefault("KERAS_BACKEND", "torch")

import measuring

ROOT = pathlib.Path(__file__).resolve().parents[1]
RECORDS = ROOT / "benchmarks" / "records" / "surgery"
SCORES = ["task", "seed", "way", "share", "steps", "split"]
SPEEDS = ["runtime", "length", "batch"]
SHARES = {0.25: "a quarter", 0.5: "half", 1.0: "all"}
# Where the layers begin that are removed, of those where they could.
LAYERS = {
    "first layers removed": 0.0,
    "middle layers removed": 0.5,
    "last layers removed": 1.0,
}
WAYS = [
    "R",
    "D",
    "heads removed, by input dependence",
    "heads removed, at random",
    "layers removed",
]


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

    records = measuring.Records(args.output / "cheaper.jsonl", SCORES)
    for seed, name in itertools.product(args.seeds, args.tasks):
        task = TASKS[name](args.model, f"{args.data}/{name}", seed)
        row = {"task": name, "seed": seed, "way": "V", "share": 0.0}
        _score(records, {**row, "steps": 0}, task, lambda t=task: t.teacher)
        for share, kind in itertools.product(args.shares, args.ways):
            # All layers, or heads, removed is all heads removed by dependence.
            if share < 1 or kind in WAYS[:3]:
                _score_way(records, row | {"share": share}, task, kind, args)


def _score_way(records, row, task, kind, args):
    """Scores students as they are, and after training the best of them."""
    found, share = {}, row["share"]
    for way in LAYERS if kind == "layers removed" else [kind]:
        make = functools.partial(_student, task, way, share)
        untrained = {**row, "way": way, "steps": 0}
        found[way] = _score(records, untrained, task, make)
    best = max(found, key=found.get)

    def trained():
        student = _student(task, best, share)
        task.distill(student, args.steps)
        return student

    row = {**row, "way": best, "steps": args.steps}
    _score(records, row, task, trained)


def _student(task, way, share):
    if way in ("R", "D"):
        return task.static(share, way)
    if way.startswith("heads removed, "):
        by = way.removeprefix("heads removed, ")
        return task.without(task.heads(by, share))
    count = task.teacher.num_layers
    number = -int(-share * count // 1)
    first = round(LAYERS[way] * (count - number))
    return task.without(task.pairs(range(first, first + number)))


def _score(records, row, task, make):
    """Returns the score on texts held out, and adds those that are missing."""
    splits = ("held out", *task.splits)
    rows = [{**row, "split": split} for split in splits]
    todo = [row for row in rows if not records.get(row)]
    model = make() if todo else None
    for row in todo:
        row["score"] = round(float(task.score(model, row["split"])), 2)
        records.append(row)
        print(row, flush=True)
    return records.get(rows[0])["score"]


def speeds(args):
    """Times each way, in Keras or in ONNX Runtime."""
    import cheaper_speeds
    import steps

    records = measuring.Records(args.output / "speeds.jsonl", SPEEDS)
    measure, runtime = cheaper_speeds.in_keras, steps.BACKEND
    if args.onnx:
        measure, runtime = cheaper_speeds.in_onnx_runtime, "onnx"
    for length, batch in itertools.product(args.lengths, args.batch_sizes):
        row = {"runtime": runtime, "length": length, "batch": batch}
        if records.get(row):
            continue
        timings = measuring.interleaved(measure(length, batch), args.rounds)
        for (where, way, share), timing in timings.items():
            row = row | {"runtime": where, "way": way, "share": share}
            row["milliseconds"] = round(1e3 * timing.median, 3)
            records.append(row)
            print(row, flush=True)


def served(args):
    """Scores the encoder itself in each runtime, and times one text."""
    import cheaper_speeds
    from cheaper_tasks import TASKS

    path = args.output / "served.jsonl"
    records = measuring.Records(path, ["what", "runtime"])

    def record(what, runtime, value):
        row = {"what": what, "runtime": runtime.replace("_", " ")}
        if not records.get(row):
            row["value"] = round(float(value), 2)
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


def report(args):
    """Writes the rows of the files that there are into records."""
    for name, file, rows_of in (
        ("cheaper", "cheaper", _scored),
        ("cheaper_speed", "speeds", _timed),
        ("cheaper_served", "served", list),
    ):
        found = measuring.Records(args.output / f"{file}.jsonl").rows
        if not found:
            continue  # not measured
        path = RECORDS / f"{name}.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        del content["rows"]
        rows = ",\n".join(f"  {json.dumps(row)}" for row in rows_of(found))
        head = json.dumps(content, indent=1).removesuffix("\n}")
        with measuring.writing(path) as new:
            new.write(f'{head},\n "rows": [\n{rows}\n ]\n}}\n')


def _place(row):
    """The way and the share of a row in words."""
    way, share = row["way"], row["share"]
    if share == 1.0 and "removed" in way:
        return "all attention removed"
    return f"{SHARES[share]}: {way}" if share else way


def _scored(rows):
    """Scores on the last split of each task, by seed."""
    splits, found = {"STS-B": "test", "SST-2": "dev"}, {}
    for row in rows:
        if row["split"] == splits[row["task"]]:
            own = found.setdefault((row["task"], _place(row)), {})
            field = "distilled" if row["steps"] else "as_is"
            own.setdefault(field, []).append(row["score"])
    for (task, name), fields in found.items():
        yield {"task": task, "name": name, **fields}


def _timed(rows):
    """Milliseconds of each runtime."""
    found = {}
    for row in rows:
        place = row["length"], row["batch"], _place(row)
        runtime = row["runtime"].replace(" ", "_")
        found.setdefault(place, {})[runtime] = row["milliseconds"]
    for place in sorted(found, key=lambda x: x[:2]):
        keys = zip(("length", "batch", "name"), place, strict=True)
        yield {**dict(keys), **found[place]}


PARTS = {
    "scores": scores,
    "speeds": speeds,
    "served": served,
    "report": report,
}

if __name__ == "__main__":
    main()
