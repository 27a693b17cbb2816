"""The tasks and the students of cheaper.py: STS-B and SST-2."""

import gzip
import json
import pathlib
import random

import cheaper_speeds
import keras
import keras_hub
import numpy as np

from keras_synth import fold
from keras_synth.analysis import attention_statistics
from keras_synth.layers import SyntheticAttention
from keras_synth.surgery import distill, graft, synthesize

LENGTH = 64  # tokens, of texts and of the tables
TRAINED_LENGTH = 32  # tokens, of texts that are learned from
BATCH = 32
CORPUS = 4_000  # texts that averages are of


class Task:
    """A trained encoder, texts to learn from, and a score.

    Args:
        preset: String, a KerasHub encoder's, or its folder.
        folder: Path of the files.
        seed: Integer, of what is trained.
    """

    held_out = 300  # training examples to choose by; nobody learns from them

    def __init__(self, preset, folder, seed):
        self.seed = seed
        self.teacher = keras_hub.models.Backbone.from_preset(preset)
        self.preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
            tokenizer(preset), sequence_length=LENGTH
        )
        examples = self.read(pathlib.Path(folder))
        # The files go by sources: shuffled, each part has all of them.
        random.Random(0).shuffle(examples["train"])
        cut, train = self.held_out, examples["train"]
        self.examples = {**examples, "held out": train[:cut]}
        held, left = (
            dict.fromkeys(text for x in part for text in x[:-1])
            for part in (train[:cut], train[cut:])
        )
        self.texts = [text for text in left if text not in held]
        self._dependence = None

    def inputs(self, texts):
        found = self.preprocessor(texts)
        return {k: keras.ops.convert_to_numpy(x) for k, x in found.items()}

    def corpus(self):
        """Batches for averages."""
        data = self.inputs(self.texts[:CORPUS])
        return [batch for _, batch in batches(data)]

    def hidden(self, model, texts):
        """Outputs `(B, T, d)` and masks of texts, as batches with indices."""
        for at, batch in batches(self.inputs(texts)):
            outputs = model.predict_on_batch(batch)
            if isinstance(outputs, dict):
                outputs = outputs["sequence_output"]
            yield at, outputs, batch["padding_mask"].astype(bool)

    def served(self):
        """The encoder in each runtime, fitted to texts to learn from."""
        ids = range(0, CORPUS, CORPUS // 16)
        data = self.inputs([self.texts[i] for i in ids])
        data = [
            {name: x[i : i + 1] for name, x in data.items()}
            for i in range(len(ids))
        ]
        student = graft(self.teacher, "V", max_length=LENGTH)
        plain = fold(student, plain=True, max_length=LENGTH)
        calls = cheaper_speeds.files(plain, data, cheaper_speeds.RUNTIMES)
        return {name: _Served(call) for name, call in calls.items()}

    # --- students -------------------------------------------------------------

    def static(self, share, to):
        """The encoder with a share of its heads as synthesizers."""
        return synthesize(
            self.teacher, self.corpus(), share, to, max_length=LENGTH
        )

    def without(self, heads):
        """The encoder without pairs of a layer and a head.

        What they send is zero, and stays zero in training: so are the
        gradients of both factors.
        """
        student = graft(self.teacher, "V", max_length=LENGTH)
        layers = attention_layers(student)
        for layer, head in heads:
            attention = layers[layer]
            silence(attention.value.kernel, 1, head)
            silence(attention.value.bias, 0, head)
            silence(attention.attention_output.kernel, 0, head)
        return student

    def heads(self, by, share):
        """Which heads to remove."""
        pairs = self.pairs(range(self.teacher.num_layers))
        number = round(share * len(pairs))
        if by == "at random":
            return random.Random(self.seed).sample(pairs, number)
        if self._dependence is None:
            found = attention_statistics(
                graft(self.teacher, "V", max_length=LENGTH), self.corpus()
            )
            self._dependence = np.concatenate(
                [own.input_dependence() for own in found.values()]
            )
        order = np.argsort(self._dependence, kind="stable")
        return [pairs[i] for i in order[:number]]

    def pairs(self, layers):
        heads = range(self.teacher.num_heads)
        return [(layer, head) for layer in layers for head in heads]

    # --- training -------------------------------------------------------------

    def distill(self, student, steps, rate=1e-4):
        """Trains a student on texts without labels."""
        freeze_embeddings(student)
        training = distill(student, self.teacher)
        warmup = max(1, steps // 10)
        schedule = keras.optimizers.schedules.CosineDecay(
            0.0, steps - warmup, warmup_target=rate, warmup_steps=warmup
        )
        training.compile(keras.optimizers.AdamW(schedule))
        training.fit(
            ((batch,) for batch in self._stream(steps)),
            steps_per_epoch=steps,
            shuffle=False,
            verbose=0,
        )

    def _stream(self, steps, chunk=40):
        """Batches of a number of steps; those of a chunk go by length."""
        rng = np.random.default_rng(self.seed)
        order = np.concatenate(
            [
                rng.permutation(len(self.texts))
                for _ in range(1 + steps * BATCH // len(self.texts))
            ]
        )
        for start in range(0, steps, chunk):
            at = order[start * BATCH : min(start + chunk, steps) * BATCH]
            data = self.inputs([self.texts[i] for i in at])
            data = {name: x[:, :TRAINED_LENGTH] for name, x in data.items()}
            found = [batch for _, batch in batches(data, BATCH)]
            rng.shuffle(found)
            yield from found


class _Served:
    """A file of an encoder, one text of `LENGTH` tokens at a time."""

    def __init__(self, call):
        self.call = call

    def predict_on_batch(self, batch):
        length = batch["token_ids"].shape[1]
        padding = [(0, 0), (0, LENGTH - length)]
        x = {name: np.pad(x, padding) for name, x in batch.items()}
        rows = [
            self.call({name: x[name][i : i + 1] for name in x})
            for i in range(len(batch["token_ids"]))
        ]
        return np.concatenate(rows)[:, :length]


class Similarity(Task):
    """STS-B: Spearman's correlation of cosines with people's scores, x 100.

    A sentence is the mean of its tokens' outputs.
    """

    splits = ("dev", "test")

    def read(self, folder):
        names = {"train": "train", "dev": "dev", "test": "sts-test"}
        return {k: rows(folder / f"{x}.tsv") for k, x in names.items()}

    def score(self, model, split):
        from scipy.stats import spearmanr

        first, second = (
            self._vectors(model, [x[side] for x in self.examples[split]])
            for side in (0, 1)
        )
        people = [float(x[2]) for x in self.examples[split]]
        return 100 * spearmanr((first * second).sum(1), people).statistic

    def _vectors(self, model, texts):
        found = np.zeros((len(texts), self.teacher.hidden_dim))
        for at, outputs, real in self.hidden(model, texts):
            means = np.where(real[..., None], outputs, 0).sum(1)
            found[at] = means / real.sum(1, keepdims=True)
        return found / np.linalg.norm(found, axis=1, keepdims=True)


class Sentiment(Task):
    """SST-2: accuracy in percent of an encoder fine-tuned on phrases.

    Students keep the teacher's pooler and output layer.
    """

    splits = ("dev",)
    held_out = 500
    phrases = 12_000  # to fine-tune on

    def __init__(self, preset, folder, seed):
        super().__init__(preset, folder, seed)
        keras.utils.set_random_seed(seed)
        classifier = keras_hub.models.BertTextClassifier(
            self.teacher, num_classes=2, dropout=0.1
        )
        classifier.compile(
            keras.optimizers.AdamW(5e-5),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        )
        known = dict(x for x in self.examples["train"][self.held_out :])
        texts = self.texts[: self.phrases]
        data = self.inputs(texts)
        labels = np.array([int(known[text]) for text in texts])
        order = [
            ({k: x[:, :TRAINED_LENGTH] for k, x in batch.items()}, labels[at])
            for at, batch in batches(data, BATCH)
        ]
        random.Random(seed).shuffle(order)
        for batch in order:
            classifier.train_on_batch(*batch)
        self._head = [
            keras.ops.convert_to_numpy(x)
            for model, layer in (
                (self.teacher, "pooled_dense"),
                (classifier, "logits"),
            )
            for x in model.get_layer(layer).weights
        ]

    def read(self, folder):
        with gzip.open(folder / "train.tsv.gz", "rt", encoding="utf-8") as file:
            train = file.read().splitlines()[1:]
        dev = (folder / "dev.tsv").read_text("utf-8").splitlines()[1:]
        return {
            name: [tuple(line.rsplit("\t", 1)) for line in lines]
            for name, lines in (("train", train), ("dev", dev))
        }

    def score(self, model, split):
        texts, labels = zip(*self.examples[split], strict=True)
        found = np.zeros(len(texts), int)
        kernel, bias, last_kernel, last_bias = self._head
        for at, outputs, _ in self.hidden(model, list(texts)):
            pooled = np.tanh(outputs[:, 0] @ kernel + bias)
            found[at] = (pooled @ last_kernel + last_bias).argmax(1)
        return 100 * np.mean(found == np.array(labels, int))


TASKS = {"STS-B": Similarity, "SST-2": Sentiment}


def attention_layers(model):
    return [
        layer
        for layer in model._flatten_layers()
        if isinstance(layer, SyntheticAttention)
    ]


def silence(weight, axis, head):
    """Zeroes the part of a weight that belongs to a head."""
    value = keras.ops.convert_to_numpy(weight).copy()
    value[(slice(None),) * axis + (head,)] = 0.0
    weight.assign(value)


# --- texts ------------------------------------------------------------------


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


def freeze_embeddings(student):
    """Leaves the embeddings as they are: equal to the teacher's."""
    for name in ("token", "position", "segment"):
        getattr(student, f"{name}_embedding").trainable = False
