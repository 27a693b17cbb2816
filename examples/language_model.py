"""
Title: Language models with Synthesizers
Author: The keras_synth authors
Date created: 2026/11/21
Last modified: 2026/11/21
Description: Train language models with synthesized attention; they write.
Accelerator: None
"""

"""
## Introduction

A language model predicts each token from those before it. The
[Synthesizer paper](https://arxiv.org/abs/2005.00743) finds that mixtures with
dot-product attention ("D+V") predict best, and that attention by position
alone ("R") comes closer than one would think. This example trains such models
on the words of WikiText-2, on the bytes of Tiny Shakespeare or of any text
file, or, if no data is given, on sentences that it generates.

```shell
python examples/language_model.py --variants V R
python examples/language_model.py --task wikitext2 --data wikitext-2
python examples/language_model.py --task tinyshakespeare --data input.txt
python examples/language_model.py --task text --data book.txt
```

Models of words are scored by their perplexity per word, those of bytes by bits
per byte. Choose the backend with `KERAS_BACKEND=jax`, `tensorflow` or `torch`.

## Setup
"""

import argparse
import json
import math
import os
import time

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras_synth_command

keras_synth_command.keras_waits = True  # for the command line

from keras_synth import command_line

TASKS = "generated wikitext2 tinyshakespeare text".split()

parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
add = command_line.adder(parser)
add("--task", choices=TASKS, default="generated", help="what to learn")
add("--data", metavar="PATH", help="the task's file or folder")
add(
    "--variants",
    nargs="+",
    default=["R+V"],
    metavar="NAME",
    help="synthesizers",
)
add("--epochs", type=int, default=3, help="passes over the text")
add("--batch-size", type=int, default=32, help="windows per training step")
add("--sequence-length", type=int, default=64, help="of windows, in tokens")
add("--tokens", type=int, default=0, help="to train on; 0 for all")
add("--num-layers", type=int, default=2, help="blocks of the decoder")
add("--num-heads", type=int, default=4, help="of each block")
add("--hidden-dim", type=int, default=128, help="model width")
add("--dropout", type=float, default=0.1, help="share to drop in training")
add("--learning-rate", type=float, default=1e-3, help="the highest one")
add("--weight-decay", type=float, default=0.004, help="of AdamW")
add("--prompt", metavar="TEXT", help="what the samples start with")
add("--sample-length", type=int, help="in tokens; at most --sequence-length")
command_line.add_training(add, "language_model")
settings = parser.parse_args(
    command_line.arguments(
        {"--synthesizers": "--variants", "--dataset": "--task"}
    )
)
sample_length = settings.sample_length or settings.sequence_length
if sample_length > settings.sequence_length:
    parser.error(
        "--sample-length must be at most --sequence-length. Received: "
        f"{sample_length} and {settings.sequence_length}"
    )
command_line.require_at_least(parser, settings, epochs=1, batch_size=1)
checkpoints = command_line.unfinished(parser, settings)

# After the command line: --help does not wait for Keras. And before Keras, so
# that TensorFlow starts in silence.
from keras_synth import (
    callbacks,
    datasets,
    files,
    metrics,
    model_card,
    models,
    optimizers,
    reporting,
    schedules,
    vocabulary,
)

# isort: split
import keras
import keras_hub
import numpy as np

command_line.check_variants(parser, settings, models.SynthesizerBackbone)

"""
## Data

A text to train on, one to validate on and one to test on: lists of words, or
strings, whose bytes are the tokens.
"""


def load_data():
    name, path = settings.task, settings.data
    if (name == "generated") != (path is None):
        parser.error(
            f"--task {name} needs --data, and generated takes none. "
            f"Received: {path}"
        )
    if name in datasets.DATASETS:
        return datasets.load(name, path)
    if name == "text":
        text = datasets.load_text(path)
    else:
        text = "\n".join(datasets.generated_translations(6000)[0])
    first, second = len(text) * 90 // 100, len(text) * 95 // 100
    return text[:first], text[first:second], text[second:]


with command_line.errors_in_options(parser, settings):
    texts = load_data()
are_words = isinstance(texts[0], list)
texts = texts[0][: settings.tokens or None], *texts[1:]

"""
## Tokens

Words are numbered by how often they occur in the training text, and words that
do not occur there are `<unk>`. Bytes are numbers already.
"""

words = vocabulary.WordVocabulary.from_text(texts[0]) if are_words else None


def encode(text):
    if are_words:
        return words.encode(text)
    return np.frombuffer(text.encode(), "uint8")


def decode(tokens):
    if are_words:
        return " ".join(words.decode(tokens)).replace("<eos>", "\n")
    return bytes(tokens.tolist()).decode(errors="replace")


streams = [encode(text) for text in texts]
vocabulary_size = len(words.words) if are_words else 256
print(
    f"{', '.join(f'{len(s):,}' for s in streams)} "
    f"{'words' if are_words else 'bytes'} to train, validate and test on; "
    f"{vocabulary_size:,} different ones"
)


def windows(stream, **options):
    return datasets.TokenWindows(
        stream, settings.sequence_length, settings.batch_size, **options
    )


with command_line.errors_in_options(parser, settings):
    validation_windows, test_windows = (
        windows(stream, shuffle=False) for stream in streams[1:]
    )
    windows(streams[0])

"""
## Model

Windows of `--sequence-length` tokens; no token sees a later one. The embedding
is the output layer, too.
"""


def build_model(name, steps):
    backbone = models.SynthesizerBackbone(
        vocabulary_size=vocabulary_size,
        num_layers=settings.num_layers,
        num_heads=settings.num_heads,
        hidden_dim=settings.hidden_dim,
        intermediate_dim=4 * settings.hidden_dim,
        synthesizer=name,
        dropout=settings.dropout,
        max_sequence_length=settings.sequence_length,
        causal=True,
    )
    model = models.SynthesizerCausalLM(backbone)
    schedule = schedules.cosine_with_warmup(settings.learning_rate, steps)
    optimizer = optimizers.adamw(schedule, settings.weight_decay)
    model.compile(
        optimizer=optimizer,
        weighted_metrics=[],
        sampler=keras_hub.samplers.TopPSampler(0.9, seed=0),
    )
    return model


"""
## Training

After each epoch all that training needs to go on is written to a file, so that
the same command with `--resume` goes on from there, along the same curve.
"""


def scorer_of(model):
    """A function that scores a model on windows, in nats per token.

    Keras' loss is a mean over all places, padded ones, too.
    """
    scorer = metrics.token_scorer(model)
    return lambda windows: scorer.evaluate(
        windows, verbose=0, return_dict=True
    )["crossentropy"]


class History(keras.callbacks.Callback):
    """Notes the losses of each epoch, and tells windows which one it is."""

    def __init__(self, windows, history, nats):
        super().__init__()
        self.windows, self.history, self.nats = windows, history, nats

    def on_epoch_begin(self, epoch, logs=None):
        self.windows.epoch = epoch
        self.started = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.history["seconds"].append(time.perf_counter() - self.started)
        self.history["loss"].append(float(logs["loss"]))
        loss = float(self.nats(validation_windows))
        self.history["val_loss"].append(loss)
        print(f"validation: {score_name} {score(loss):.3f}")


def train_model(name):
    """Returns a trained model, its history, and what scores it."""
    keras.utils.set_random_seed(settings.seed)
    keras.config.set_dtype_policy(settings.dtype_policy)
    train_windows = windows(streams[0], seed=settings.seed)
    model = build_model(name, settings.epochs * len(train_windows))
    history = {"loss": [], "val_loss": [], "seconds": []}
    checkpoint = callbacks.EpochCheckpoint(
        settings.output / f"{name}.npz", history, settings.seed
    )
    epoch = checkpoint.restore(model)
    if epoch:
        print(f"Going on after epoch {epoch}")
    nats = scorer_of(model)
    model.fit(
        train_windows,
        initial_epoch=epoch,
        epochs=max(epoch, settings.epochs),
        callbacks=[History(train_windows, history, nats), checkpoint],
        verbose=2,
    )
    return model, history, nats


score_name = "perplexity" if are_words else "bits/byte"


def score(loss):
    """Perplexity per word, or bits per byte, of a loss in nats per token."""
    return math.exp(loss) if are_words else loss / math.log(2)


"""
## Writing

The model reads a prompt and writes on, sampling from the likeliest tokens that
have nine tenths of the probability together.
"""


def write(model):
    """Returns a prompt and what the model made of it."""
    prompt = settings.prompt
    if prompt is None:
        prompt = texts[2][:8]  # words or characters of the text to test on
    elif are_words:
        prompt = prompt.split()
    tokens = encode(prompt)[: sample_length - 1]
    row = np.zeros((1, sample_length), "int32")
    row[0, : len(tokens)] = tokens
    mask = np.arange(sample_length)[None] < len(tokens)
    written = model.generate(
        {"token_ids": row, "padding_mask": mask.astype("int32")},
        stop_token_ids=None,
    )
    return decode(np.asarray(written["token_ids"])[0])


"""
## Saving

A preset holds the model, for words beside a file of them; its card says what it
is and how to load it.
"""

USAGE = """
import numpy as np
from keras_synth import models

folder = "{folder}"
model = models.SynthesizerCausalLM.from_preset(folder)
{prompt}
row = np.zeros((1, {length}), "int32")
row[0, : len(prompt)] = prompt
mask = np.arange({length})[None] < len(prompt)
written = model.generate(
    {{"token_ids": row, "padding_mask": mask}}, stop_token_ids=None
)
tokens = np.asarray(written["token_ids"])[0].tolist()
print({text})
"""
BYTES = {
    "prompt": 'prompt = list(b"The ")',
    "text": 'bytes(tokens).decode(errors="replace")',
}
WORDS = {
    "prompt": """\
with open(folder + "/vocabulary.txt", encoding="utf-8") as file:
    words = file.read().split("\\n")
prompt = [words.index(word) for word in ["the"]]""",
    "text": '" ".join(words[token] for token in tokens)',
}


def save(model, name, result):
    folder = settings.output / name
    model.save_to_preset(folder)
    if are_words:
        with files.writing(folder / "vocabulary.txt") as file:
            file.write("\n".join(words.words))
    unit = "words" if are_words else "bytes"
    generated = settings.task == "generated"
    usage = USAGE.format(
        folder=name,
        length=settings.sequence_length,
        **(WORDS if are_words else BYTES),
    )
    model_card.write_model_card(
        folder,
        f"Language model, {settings.task}, {name}",
        f"Writes texts, in {unit}. A `SynthesizerCausalLM` of keras_synth: "
        f"{settings.num_layers} blocks, self-attention {name}.",
        f"The task `{settings.task}`: {len(streams[0]):,} {unit}"
        f"{', generated' if generated else ''}. Epochs: {settings.epochs}.",
        {
            f"{score_name}, test": f"{result['score']:.3f}",
            "parameters": f"{result['parameters']:,}",
        },
        usage,
        licence="apache-2.0" if generated else None,  # of other data, unknown
    )


"""
## Run
"""

settings.output.mkdir(parents=True, exist_ok=True)
results = []
for name in settings.variants:
    print(f"\n{name} on {keras.backend.backend()}")
    model, history, nats = train_model(name)
    loss = float(nats(test_windows))
    results.append(
        {
            "variant": name,
            "score": score(loss),
            "validation": score(history["val_loss"][-1]),
            "parameters": model.count_params(),
            "history": history,
            "sample": write(model),
        }
    )
    save(model, name, results[-1])
    print(f"{name}: {score_name} {score(loss):.3f}")
    print(f"\n{results[-1]['sample']}\n")

"""
## Report

A table of all models, and their learning curves.
"""


reporting.print_table(
    f"{settings.task}, {keras.backend.backend()} backend, seed {settings.seed}",
    ["variant", score_name, "validation", "training, s", "parameters"],
    [
        [
            run["variant"],
            f"{run['score']:.3f}",
            f"{run['validation']:.3f}",
            f"{sum(run['history']['seconds']):.0f}",
            f"{run['parameters']:,}",
        ]
        for run in results
    ],
)
with reporting.picture(settings.output / "learning_curves.png") as axes:
    for i, run in enumerate(results):
        epochs = np.arange(1, len(run["history"]["loss"]) + 1)
        validation = [score(loss) for loss in run["history"]["val_loss"]]
        training = [score(loss) for loss in run["history"]["loss"]]
        label = f"{run['variant']} (test {run['score']:.2f})"
        axes.plot(epochs, validation, f"C{i}o-", label=label)
        axes.plot(epochs, training, f"C{i}:", alpha=0.7)
    axes.set_ylabel(f"{score_name} (line: validation, dots: training)")
    axes.legend()
with files.writing(settings.output / "results.json") as file:
    json.dump(results, file, indent=1)
for path in checkpoints:  # what they hold is safe
    path.unlink(missing_ok=True)
print(
    f"Presets, results.json and learning_curves.png are in {settings.output}/"
)

"""
## What to look for

The generated sentences follow a grammar: which verb form is right depends on a
noun some words back. Attention that compares tokens finds it wherever it is;
attention by position must know where to look.
"""
