"""How many heads of a trained encoder may be tables: STS-B.

Sentences are the means of their tokens' outputs; the score is Spearman's
correlation of their cosines with those of people. Heads become tables by
`keras_synth.surgery.synthesize`, with averages over sentences of the training
pairs, and learn from the model by `distill`, from these sentences without
their scores.

    python benchmarks/static_heads.py score all-MiniLM-L6-v2/ --data glue/STS-B
    python benchmarks/static_heads.py distill all-MiniLM-L6-v2/ \
        --data glue/STS-B --num-heads 36 --steps 240
    KERAS_BACKEND=jax python benchmarks/static_heads.py speed all-MiniLM-L6-v2/
    python benchmarks/static_heads.py report

Rows go to `--output`, and what is there is not measured again. `distill` goes
on where it stopped. `report` prints the tables and draws the figure of
docs/surgery.md.
"""

import argparse
import functools
import os
import pathlib
import tempfile

os.environ.setdefault("KERAS_BACKEND", "torch")

import command
import static_heads_report
import static_heads_speed
from records import Records
from static_heads_task import Run, Task

HEADS = [0, 12, 24, 36, 48, 60, 72]
WAYS = ["input dependence", "greedy", "random 0", "random 1"]
SCORES = ["part", "heads", "to", "by", "steps", "split"]
SCORES += ["spearman", "minutes", "cpu_minutes"]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = command.adder(parser)
    add("part", choices=PARTS, help="what to do")
    add("model", nargs="?", help="a KerasHub encoder's preset, or its folder")
    add("--data", metavar="FOLDER", help="of STS-B's three .tsv files")
    add("--num-heads", nargs="+", type=int, default=HEADS, help="as tables")
    add("--to", default="R", help="what they become")
    add("--by", default=WAYS[0], choices=WAYS, help="how they are chosen")
    add("--sentences", type=int, default=4_000, help="for the averages")
    add("--splits", nargs="+", default=["dev"], help="dev, or test")
    add("--steps", type=int, default=240, help="of 32 sentences, distilled")
    add("--steps-per-score", type=int, default=40, help="on held-out pairs")
    add("--learning-rate", type=float, default=1e-4, help="the highest")
    add("--runs", type=pathlib.Path, help="folder of unfinished students")
    add("--sequence-length", nargs="+", type=int, default=[128, 512])
    add("--batch-size", nargs="+", type=int, default=[1, 32])
    add("--rounds", type=int, default=5)
    add("--output", type=pathlib.Path, default=static_heads_report.FOLDER)
    args = command.parse(parser)
    if args.model is None and args.part != "report":
        parser.error("say which model to read")
    if args.data is None and args.part in ("score", "distill"):
        parser.error("--data says where STS-B is")
    PARTS[args.part](args)


def score(args):
    """Scores models as they are, without training."""
    task = Task(args.model, args.data, args.sentences)
    for number in args.num_heads:
        _record(
            args,
            {"part": "as they are", "heads": number, "steps": 0},
            functools.cache(lambda n=number: _of_heads(args, task, n)),
            task,
        )


def _of_heads(args, task, number):
    if not number:
        return task.teacher
    return task.student(number, args.to, args.by)


def train(args):
    """Distills students: the last step's is scored."""
    task = Task(args.model, args.data, args.sentences)
    folder = args.runs or pathlib.Path(tempfile.gettempdir(), "static_heads")
    for number in args.num_heads:
        name = f"{args.to} {number} {args.by} {args.steps}".replace(" ", "_")
        run = Run(
            task,
            folder / name,
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
    records = Records(args.output / "scores.csv", SCORES, SCORES[:6])
    for split in args.splits:
        row |= {"to": args.to, "by": args.by, "split": split}
        if row not in records:
            found = task.score(model(), split)
            records.append({**row, "spearman": f"{found:.4f}"})
            print(records.rows[-1], flush=True)


PARTS = {
    "score": score,
    "distill": train,
    "speed": static_heads_speed.measure,
    "report": static_heads_report.report,
}

if __name__ == "__main__":
    main()
