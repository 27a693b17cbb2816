"""How many heads of a trained encoder may be tables: STS-B, untrained.

Sentences are the means of their tokens' outputs; the score is Spearman's
correlation of their cosines with those of people, on STS-B's dev pairs. Heads
become tables by `keras_synth.surgery.synthesize`, with averages over sentences
of the training pairs; nothing is trained.

    python benchmarks/static_heads.py all-MiniLM-L6-v2/ --data glue/STS-B
"""

import argparse
import json
import os
import pathlib
import random

os.environ.setdefault("KERAS_BACKEND", "torch")

import command
import keras
import keras_hub
import numpy as np
from scipy.stats import spearmanr

from keras_synth.surgery import synthesize

HEADS = [12, 24, 36, 48, 60, 72]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = command.adder(parser)
    add("model", metavar="PRESET", help="of a KerasHub encoder, or its folder")
    add("--data", required=True, metavar="FOLDER", help="dev.tsv, train.tsv")
    add("--num-heads", nargs="+", type=int, default=HEADS, help="as tables")
    add("--to", default="R", help="what they become")
    add("--random", action="store_true", help="draw them by lot, seeds 0, 1")
    add("--sentences", type=int, default=4_000, help="for the averages")
    add("--sequence-length", type=int, default=64, metavar="N")
    args = command.parse(parser)
    folder = pathlib.Path(args.data)
    task = Task(args.model, folder / "dev.tsv", args.sequence_length)
    train = [x for row in rows(folder / "train.tsv") for x in row[:2]]
    data = task.inputs(train[: args.sentences])
    print(f"{0:4} tables {task.score(task.backbone):.4f}", flush=True)
    for number in args.num_heads:
        for name, by in choices(task.backbone, number, args.random):
            student = synthesize(
                task.backbone,
                data,
                number,
                args.to,
                by,
                max_length=args.sequence_length,
            )
            score = task.score(student)
            print(f"{number:4} tables {score:.4f} {name}", flush=True)


def choices(backbone, number, by_lot):
    if not by_lot:
        return [("input dependence", "input_dependence")]
    heads = range(backbone.num_heads)
    pairs = [(i, j) for i in range(backbone.num_layers) for j in heads]
    return [
        (f"random, seed {seed}", random.Random(seed).sample(pairs, number))
        for seed in (0, 1)
    ]


def rows(path):
    """The two sentences and the score of each pair of a file of STS-B."""
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    names = head.split("\t")
    at = [names.index(x) for x in ("sentence1", "sentence2", "score")]
    return [[line.split("\t")[i] for i in at] for line in lines]


class Task:
    """Similarity of sentences, by the outputs of an encoder."""

    def __init__(self, preset, path, length):
        self.backbone = keras_hub.models.Backbone.from_preset(preset)
        self._preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
            tokenizer(preset), sequence_length=length
        )
        pairs = rows(path)
        self._sides = [self.inputs([r[i] for r in pairs]) for i in (0, 1)]
        self._scores = [float(row[2]) for row in pairs]

    def inputs(self, texts):
        found = self._preprocessor(texts)
        return {k: keras.ops.convert_to_numpy(x) for k, x in found.items()}

    def score(self, model):
        first, second = (self._vectors(model, side) for side in self._sides)
        return spearmanr((first * second).sum(1), self._scores).statistic

    def _vectors(self, model, inputs):
        outputs = model.predict(inputs, batch_size=64, verbose=0)
        if isinstance(outputs, dict):
            outputs = outputs["sequence_output"]
        real = inputs["padding_mask"].astype(bool)[..., None]
        means = np.where(real, outputs, 0).sum(1) / real.sum(1)
        return means / np.linalg.norm(means, axis=1, keepdims=True)


def tokenizer(preset):
    """A preset's; of a folder without `vocab.txt`, that of `tokenizer.json`."""
    path = pathlib.Path(preset) / "tokenizer.json"
    if not path.exists() or path.with_name("vocab.txt").exists():
        return keras_hub.models.BertTokenizer.from_preset(preset)
    words = json.loads(path.read_text(encoding="utf-8"))["model"]["vocab"]
    return keras_hub.models.BertTokenizer(
        sorted(words, key=words.get), lowercase=True
    )


if __name__ == "__main__":
    main()
