"""What static_heads.py does with STS-B: sentences, scores, students."""

import json
import pathlib
import random
import time

import keras
import keras_hub
import measuring
import numpy as np
from scipy.stats import spearmanr

from keras_synth.surgery import distill, synthesize

LENGTH = 64  # tokens, of sentences that are scored, and of the tables
TRAINED_LENGTH = 32  # tokens, of sentences that are learned from
HELD_OUT = 300  # training pairs to choose by; nobody learns from them
BATCH = 32


class Task:
    """Similarity of sentences, by the outputs of an encoder.

    Args:
        preset: String, a KerasHub encoder's, or its folder.
        folder: Path of STS-B's three files.
        sentences: Integer, how many the averages are of.
    """

    def __init__(self, preset, folder, sentences):
        self.teacher = keras_hub.models.Backbone.from_preset(preset)
        self._preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
            tokenizer(preset), sequence_length=LENGTH
        )
        folder = pathlib.Path(folder)
        # The file goes by sources: shuffled, each part has all of them.
        train = rows(folder / "train.tsv")
        random.Random(0).shuffle(train)
        self._pairs = {
            "held out": train[:HELD_OUT],
            "dev": rows(folder / "dev.tsv"),
            "test": rows(folder / "sts-test.tsv"),
        }
        held, left = (
            dict.fromkeys(x for pair in pairs for x in pair[:2])
            for pairs in (train[:HELD_OUT], train[HELD_OUT:])
        )
        self._sentences = [x for x in left if x not in held]
        self._number = sentences

    def inputs(self, texts):
        found = self._preprocessor(texts)
        return {k: keras.ops.convert_to_numpy(x) for k, x in found.items()}

    def score(self, model, split):
        """Spearman's correlation on a split."""
        pairs = self._pairs[split]
        first, second = (
            vectors(model, self.inputs([pair[side] for pair in pairs]))
            for side in (0, 1)
        )
        people = [float(pair[2]) for pair in pairs]
        return spearmanr((first * second).sum(1), people).statistic

    def corpus(self):
        """Batches for averages."""
        data = self.inputs(self._sentences[: self._number])
        return [batch for _, batch in batches(data)]

    def chosen(self, by, number):
        """What `synthesize` takes for `by`."""
        if not by.startswith("random"):
            return by.replace(" ", "_")
        heads = range(self.teacher.num_heads)
        pairs = [(i, j) for i in range(self.teacher.num_layers) for j in heads]
        return random.Random(int(by.split()[1])).sample(pairs, number)

    def student(self, number, to, by):
        """The model with a number of heads as tables."""
        options = {}
        if by == "greedy":
            options["score"] = lambda model: self.score(model, "held out")
        return synthesize(
            self.teacher,
            self.corpus(),
            number,
            to,
            self.chosen(by, number),
            max_length=LENGTH,
            **options,
        )

    def chunk(self, index, steps):
        """Batches of steps in a row, shuffled, no sentence twice an epoch."""
        size = steps * BATCH
        many = 1 + (index + 1) * size // len(self._sentences)
        order = np.concatenate(
            [
                np.random.default_rng((7, epoch)).permutation(
                    len(self._sentences)
                )
                for epoch in range(many)
            ]
        )[index * size : (index + 1) * size]
        data = self.inputs([self._sentences[i] for i in order])
        data = {name: x[:, :TRAINED_LENGTH] for name, x in data.items()}
        found = [batch for _, batch in batches(data, BATCH)]
        random.Random(index).shuffle(found)
        return found


class Run:
    """A student in training, which goes on where it stopped.

    Args:
        task: `Task`.
        folder: Path, where its states are.
        start: Function that returns the student before the first step.
        steps: Integer, all steps.
        rate: Float, the highest learning rate.
    """

    def __init__(self, task, folder, start, steps, rate):
        self._task, self._folder = task, folder
        first = folder / "start.keras"
        if not first.exists():
            folder.mkdir(parents=True, exist_ok=True)
            start().save(first)
        self.student = keras.saving.load_model(first)
        freeze_embeddings(self.student)
        self._training = distill(self.student, task.teacher)
        warmup = max(1, steps // 10)
        schedule = keras.optimizers.schedules.CosineDecay(
            0.0,
            max(1, steps - warmup),
            warmup_target=rate,
            warmup_steps=warmup,
        )
        self._training.compile(keras.optimizers.AdamW(schedule))
        self._training.optimizer.build(self._training.trainable_variables)
        self.log = {"done": 0, "seconds": 0.0, "cpu_seconds": 0.0, "scores": []}
        if self._path("log.json").exists():
            self.log = json.loads(self._path("log.json").read_text())
            self._training.load_weights(self._path(self.log["weights"]))

    def _path(self, name):
        return self._folder / name

    def go_on(self, steps):
        """Trains for a number of steps, and keeps what has become of it."""
        clocks = time.time(), time.process_time()
        chunk = self._task.chunk(self.log["done"] // steps, steps)
        losses = self._training.fit(
            ((x,) for x in chunk),
            steps_per_epoch=steps,
            shuffle=False,
            verbose=0,
        ).history
        self.log["seconds"] += time.time() - clocks[0]
        self.log["cpu_seconds"] += time.process_time() - clocks[1]
        self.log["done"] += steps
        score = self._task.score(self.student, "held out")
        losses = {name: value[0] for name, value in losses.items()}
        said = {"step": self.log["done"], "held out": score, **losses}
        self.log["scores"].append(said)
        old = self.log.get("weights")
        self.log["weights"] = f"{self.log['done']}.weights.h5"
        self._training.save_weights(self._path(self.log["weights"]))
        with measuring.writing(self._path("log.json")) as file:
            json.dump(self.log, file, indent=1)
        if old:
            self._path(old).unlink(missing_ok=True)
        minutes = self.log["seconds"] / 60
        print({**said, "minutes": round(minutes, 1)}, flush=True)


def freeze_embeddings(student):
    """Leaves the embeddings as they are: equal to the teacher's."""
    for name in ("token", "position", "segment"):
        getattr(student, f"{name}_embedding").trainable = False


def rows(path):
    """The two sentences and the score of each pair of a file of STS-B."""
    lines = path.read_text(encoding="utf-8").splitlines()
    at = [5, 6, 4]  # of the test file, which names no columns
    if lines[0].startswith("index"):
        names = lines.pop(0).split("\t")
        at = [names.index(x) for x in ("sentence1", "sentence2", "score")]
    return [[line.split("\t")[i] for i in at] for line in lines]


def batches(data, size=64):
    """Pairs of row numbers and batches, by length, as short as may be."""
    lengths = data["padding_mask"].sum(1)
    order = np.argsort(lengths, kind="stable")
    for start in range(0, len(order), size):
        at = order[start : start + size]
        longest = int(lengths[at].max())
        if keras.backend.backend() != "torch":  # compiles for each length
            longest = min(-(-longest // 8) * 8, data["padding_mask"].shape[1])
        yield at, {name: x[at, :longest] for name, x in data.items()}


def vectors(model, inputs):
    """Mean outputs of real tokens, of length 1."""
    found = np.zeros((len(inputs["token_ids"]), model.hidden_dim))
    for at, batch in batches(inputs):
        outputs = model.predict_on_batch(batch)
        if isinstance(outputs, dict):
            outputs = outputs["sequence_output"]
        real = batch["padding_mask"].astype(bool)[..., None]
        found[at] = np.where(real, outputs, 0).sum(1) / real.sum(1)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def tokenizer(preset):
    """A preset's; of a folder of Hugging Face's, that of `tokenizer.json`."""
    path, content = pathlib.Path(preset) / "tokenizer.json", {}
    if path.exists() and not path.with_name("vocab.txt").exists():
        content = json.loads(path.read_text(encoding="utf-8"))
    if "model" not in content:  # KerasHub's own
        return keras_hub.models.BertTokenizer.from_preset(preset)
    words = content["model"]["vocab"]
    return keras_hub.models.BertTokenizer(
        sorted(words, key=words.get), lowercase=True
    )
