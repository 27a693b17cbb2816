"""All five tasks, small, with examples; and batches of every kind."""

import keras
import pytest
import small_tasks
from backend import numpy

TEXTS = ["the film is good", "a plot", "the film is dull", "good and good"] * 2
NAMES = ["good", "bad"] * 4
WORDS = [text.split() for text in TEXTS]
TAGS = [["bad"] * (len(words) - 1) + ["good"] for words in WORDS]
TASKS = (*small_tasks.CLASSES,)
STREAMS = ("generator", "PyDataset", "DataLoader")


def task(kind):
    """A task, with the classes "bad" and "good" if it has classes."""
    names = {"class_names": ["bad", "good"]} if "classifier" in kind else {}
    return small_tasks.task(kind, **names)


def examples(kind):
    """`(x,)`, `(x, y)` or `(x, y, sample_weight)` for `fit`."""
    if kind == "classifier":
        return TEXTS, NAMES, [1.0, 0.5] * 4
    if kind == "token_classifier":
        return WORDS, TAGS, [1.0, 0.5] * 4
    if kind == "seq2seq_lm":
        return ({"encoder_text": TEXTS[::-1], "decoder_text": TEXTS},)
    return (TEXTS,)


def cut(data, at):
    """An example of nested columns, or those of a slice."""
    if isinstance(data, tuple):
        return tuple(cut(part, at) for part in data)
    if isinstance(data, dict):
        return {name: cut(part, at) for name, part in data.items()}
    return data[at]


def batches(data, size=4):
    """A list of batches of eight examples."""
    return [cut(data, slice(at, at + size)) for at in range(0, 8, size)]


class Batches(keras.utils.PyDataset):
    """A `PyDataset` of given batches."""

    def __init__(self, given):
        super().__init__()
        self.given = given

    def __len__(self):
        return len(self.given)

    def __getitem__(self, index):
        return self.given[index]


def stream(kind, given):
    """Batches, a list, as one of `STREAMS`."""
    if kind == "generator":
        return (batch for batch in given)
    if kind == "PyDataset":
        return Batches(given)
    # The loader's batches are lists of one element, which is the batch.
    return pytest.importorskip("torch.utils.data").DataLoader(
        given, batch_size=1, collate_fn=lambda rows: rows[0]
    )


def record(model):
    """Replaces the step of `fit`, and returns a list of its inputs."""
    seen = []

    def step(*given):
        *state, data = given  # JAX passes on all variables
        data = keras.utils.unpack_x_y_sample_weight(data)
        data = [part for part in data if part is not None]
        seen.append(keras.tree.map_structure(numpy, data))
        return ({"loss": 0.0}, *state) if state else {"loss": 0.0}

    model.train_step = model.test_step = step
    model.get_metrics_result = lambda: {"loss": 0.0}
    model.compile(
        "sgd",
        lambda y_true, y_pred: 0.0 * keras.ops.mean(y_pred, axis=-1),
        run_eagerly=True,
    )
    return seen
