"""How many heads of a trained encoder may be tables: STS-B.

Sentences are the means of their tokens' outputs; the score is Spearman's
correlation of their cosines with those of people. Heads become tables by
`keras_synth.surgery.synthesize`, with averages over sentences of the training
pairs, and learn from the model by `distill`, from these sentences without
their scores.

    python benchmarks/static_heads.py score all-MiniLM-L6-v2/ --data glue/STS-B
    python benchmarks/static_heads.py distill all-MiniLM-L6-v2/ \\
        --data glue/STS-B --num-heads 36 --steps 240
    KERAS_BACKEND=jax python benchmarks/static_heads.py speed all-MiniLM-L6-v2/
    python benchmarks/static_heads.py report

Rows go to CSV files in `--output`, and what is there is not measured again.
`distill` goes on where it stopped. `report` makes the records
of docs/surgery.md of them.
"""

import csv
import functools
import json
import os
import pathlib
import tempfile
import time

os.environ.setdefault("KERAS_BACKEND", "torch")

import measuring

ROOT = pathlib.Path(__file__).resolve().parents[1]
RECORDS = ROOT / "benchmarks" / "records"
HEADS = [0, 12, 24, 36, 48, 60, 72]
WAYS = ["input dependence", "greedy", "random 0", "random 1"]
SCORES = ["part", "heads", "to", "by", "steps", "split"]
SCORES += ["spearman", "minutes", "cpu_minutes"]
SPEEDS = ["backend", "length", "batch", "model", "speed", "bound"]
TEACHER = "KerasHub's"


def main():
    parser = measuring.options(
        __doc__,
        {"by": WAYS},
        num_heads=HEADS,  # as tables
        to="R",
        by=WAYS[0],
        sentences=4_000,
        splits=["dev"],
        steps=240,
        steps_per_score=40,
        learning_rate=1e-4,
        sequence_length=[128, 512],
        batch_size=[1, 32],
        rounds=5,
        output=ROOT / "docs" / "surgery",
    )
    parser.add_argument("part", choices=PARTS, help="what to do")
    parser.add_argument("model", nargs="?", help="an encoder's preset")
    parser.add_argument("--data", help="folder of STS-B's three .tsv files")
    parser.add_argument("--runs", help="folder of unfinished students")
    args = parser.parse_args()
    if args.model is None and args.part != "report":
        parser.error("say which model to read")
    if args.data is None and args.part in ("score", "distill"):
        parser.error("--data says where STS-B is")
    PARTS[args.part](args)


def score(args):
    """Scores models as they are, without training."""
    from static_heads_task import Task

    task = Task(args.model, args.data, args.sentences)
    for number in args.num_heads:

        @functools.cache
        def model(number=number):
            if not number:
                return task.teacher
            return task.student(number, args.to, args.by)

        row = {"part": "as they are", "heads": number, "steps": 0}
        _record(args, row, model, task)


def distill(args):
    """Distills students: the last step's is scored."""
    from static_heads_task import Run, Task

    task = Task(args.model, args.data, args.sentences)
    runs = args.runs or pathlib.Path(tempfile.gettempdir(), "static_heads")
    for number in args.num_heads:
        name = f"{args.to} {number} {args.by} {args.steps}".replace(" ", "_")
        run = Run(
            task,
            pathlib.Path(runs) / name,
            lambda n=number: task.student(n, args.to, args.by),
            args.steps,
            args.learning_rate,
        )
        while run.log["done"] < args.steps:
            run.go_on(args.steps_per_score)
        row = {"part": "distilled", "heads": number, "steps": args.steps}
        for clock in ("", "cpu_"):
            seconds = run.log[f"{clock}seconds"]
            row[f"{clock}minutes"] = f"{seconds / 60:.1f}"
        _record(args, row, lambda r=run: r.student, task)


def _record(args, row, model, task):
    """Adds the scores of a model that are not there yet."""
    path = args.output / "scores.csv"
    records = measuring.Records(path, SCORES, SCORES[:6])
    for split in args.splits:
        row |= {"to": args.to, "by": args.by, "split": split}
        if row not in records:
            found = task.score(model(), split)
            records.append({**row, "spearman": f"{found:.4f}"})
            print(records.rows[-1], flush=True)


# --- speed ---


def speed(args):
    """Records speeds relative to the encoder, grafted with V.

    In seconds of the process, not of the clock: other processes may compete.
    """
    import steps

    path = args.output / "speed.csv"
    records = measuring.Records(path, SPEEDS, SPEEDS[:4])
    models = variants(args.model, max(args.sequence_length))
    for length in args.sequence_length:
        for batch in args.batch_size:
            row = {"backend": steps.BACKEND, "length": length, "batch": batch}
            if {**row, "model": TEACHER} in records:
                continue
            timings = measuring.interleaved(
                {k: forward(x, batch, length) for k, x in models.items()},
                args.rounds,
                time.process_time,
            )
            first = timings["V"].median
            for name, model in models.items():
                found = {"speed": f"{first / timings[name].median:.2f}"}
                if name != TEACHER:
                    bound = count(models["V"], length) / count(model, length)
                    found["bound"] = f"{bound:.2f}"
                records.append({**row, "model": name, **found})
                print(records.rows[-1], flush=True)


def variants(preset, length):
    """The encoder as it is, and with heads as tables."""
    import keras_hub
    import numpy as np

    from keras_synth import fold
    from keras_synth.surgery import graft, synthesize

    teacher = keras_hub.models.Backbone.from_preset(preset)
    data = {name: np.ones((1, length), "int32") for name in teacher.input}
    half, whole = (
        synthesize(
            teacher,
            data,
            by=[(i, j) for i in range(teacher.num_layers) for j in range(n)],
            max_length=length,
        )
        for n in (teacher.num_heads // 2, teacher.num_heads)
    )
    return {
        "V": graft(teacher, "V", max_length=length),
        TEACHER: teacher,
        "half static": half,
        "half static, folded": fold(half),
        "all static": whole,
        "all static, folded": fold(whole),
    }


def forward(model, batch, length):
    """A function of one forward pass of sequences without padding."""
    import numpy as np
    import steps

    ids = np.random.default_rng(0).integers(1_000, 2_000, (batch, length))
    inputs = {
        "token_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": np.ones_like(ids),
    }
    inputs = {k: steps.array(inputs[k], "int32") for k in model.input}
    return steps.inference(steps.of_layer(model, training=False), inputs)


def count(model, length):
    from keras_synth.analysis import multiplications

    return sum(multiplications(model, length, length).values())


# --- the records ---


def report(args):
    """Writes the rows of the CSV files into records."""
    scores = {"scores": _scores, "distilled": _distilled, "speed": _speeds}
    for name, rows_of in scores.items():
        path = RECORDS / "surgery" / f"{name}.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        file = "speed" if name == "speed" else "scores"
        with open(args.output / f"{file}.csv", encoding="utf-8") as lines:
            content["rows"] = [*rows_of([*csv.DictReader(lines)])]
        rows = ",\n".join(f"  {json.dumps(row)}" for row in content.pop("rows"))
        head = json.dumps(content, indent=1).removesuffix("\n}")
        with measuring.writing(path) as new:
            new.write(f'{head},\n "rows": [\n{rows}\n ]\n}}\n')


def _scores(rows):
    """Scores on dev, by ways of choosing."""
    for row in sorted(rows, key=lambda row: (row["part"], int(row["heads"]))):
        if row["split"] == "dev":
            by = row["by"]
            by = "at random" if by.startswith("random") else f"by {by}"
            way = f"{row['to']}, {by}" if row["heads"] != "0" else "the model"
            yield {
                "name": way,
                "part": row["part"],
                "static": int(row["heads"]),
                "spearman": float(row["spearman"]),
            }


def _distilled(rows):
    """The model and what was distilled, on dev and test."""
    models = {}
    for row in rows:
        if row["part"] == "distilled" or row["heads"] == "0":
            name = f"{row['heads']} heads as {row['to']}, {row['by']}"
            name = name if row["heads"] != "0" else "the model"
            found = models.setdefault(name, {"name": name})
            found[row["split"]] = float(row["spearman"])
            found["steps"] = int(row["steps"])
            if row["cpu_minutes"]:
                found["minutes"] = float(row["cpu_minutes"])
    return models.values()


def _speeds(rows):
    """Speeds of each backend, and the bounds."""
    places = {}
    for row in rows:
        if row["model"] != "V":
            place = int(row["length"]), int(row["batch"]), row["model"]
            found = places.setdefault(place, {})
            found[row["backend"]] = float(row["speed"])
            if row["bound"]:
                found["bound"] = float(row["bound"])
    order = ("jax", "tensorflow", "torch", "bound")
    for (length, batch, name), found in places.items():
        for by in order:
            if by in found:
                shared = {"length": length, "batch": batch, "name": name}
                yield {**shared, "backend": by, "speed": found[by]}


PARTS = {"score": score, "distill": distill, "speed": speed, "report": report}

if __name__ == "__main__":
    main()
