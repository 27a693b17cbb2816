"""
Title: Translation with Synthesizers
Author: The keras_synth authors
Date created: 2026/11/21
Last modified: 2026/11/21
Description: Train sequence-to-sequence models with synthesized attention.
Accelerator: None
"""

"""
## Introduction

The [Synthesizer paper](https://arxiv.org/abs/2005.00743) translates English to
German and French, sums up articles and keeps up small talk with attention
weights that no pair of tokens was compared for. This example does so with any
pairs of texts: it trains a model for each synthesizer, lets them write, and
scores what they wrote.

Without data it generates sentences in English and an invented language, for
which words, their order and their agreement must be learned. Data come as
[Multi30K](https://github.com/multi30k/dataset), Tatoeba, DialogSum,
Persona-Chat, or as any two files whose lines belong together, or one file with
tabs.

```shell
python examples/translation.py --variants V R R+V
python examples/translation.py --task multi30k --data task1/raw
python examples/translation.py --task tatoeba --data deu.txt
python examples/translation.py --task text_pairs --data train.en train.fr
python examples/translation.py --task dialogsum --data DialogSum_Data
```

Choose the backend with `KERAS_BACKEND=jax`, `tensorflow` or `torch`. On CPUs
PyTorch is the fastest here: it compiles nothing, and there are many lengths.

## Setup
"""

import argparse
import json
import os
import time

os.environ.setdefault("KERAS_BACKEND", "torch")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras_synth_command

keras_synth_command.keras_waits = True  # for the command line

from keras_synth import command_line

TASKS = "translations multi30k tatoeba dialogsum personachat text_pairs".split()
RENAMED = {"generated": "translations", "files": "text_pairs"}
SAMPLES = 4

parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
add = command_line.adder(parser)
add(
    "--task",
    **command_line.choice(TASKS, RENAMED),
    default="translations",
    help="what to learn; translations are generated",
)
add("--data", nargs="+", metavar="PATH", help="for text_pairs, one or two")
add(
    "--languages",
    nargs=2,
    metavar=("FROM", "TO"),
    help="of Multi30K, if not en de",
)
add(
    "--skip-empty", action="store_true", help="leave out pairs with empty lines"
)
add(
    "--variants",
    nargs="+",
    default=["R+V"],
    metavar="NAME",
    help="synthesizers",
)
add("--examples", type=int, default=0, help="to train on; 0 for all")
add("--test-examples", type=int, default=0, help="to write; 0 for all")
add("--epochs", type=int, default=10, help="passes over the pairs")
add("--batch-size", type=int, default=128, help="pairs per training step")
add("--sequence-length", type=int, default=64, help="of sources, in tokens")
add("--target-length", type=int, help="in tokens; as sources if not given")
add(
    "--lengths",
    type=int,
    nargs="*",
    default=[16, 24, 32],
    help="in tokens, to pad shorter pairs to",
)
add("--vocabulary-size", type=int, default=8000, help="byte pairs")
add("--num-layers", type=int, default=3, help="of encoder and decoder each")
add("--num-heads", type=int, default=4, help="of each attention layer")
add("--hidden-dim", type=int, default=256, help="model width")
add("--intermediate-dim", type=int, default=512, help="feed-forward width")
add(
    "--positions",
    choices=["sinusoidal", "learned"],
    default="sinusoidal",
    help="kind of position embeddings",
)
add("--dropout", type=float, default=0.2, help="share to drop in training")
add("--label-smoothing", type=float, default=0.1, help="share of all tokens")
add("--learning-rate", type=float, default=1.5e-3, help="the highest one")
add("--beams", type=int, default=4, help="1 for greedy decoding alone")
command_line.add_training(add, "translation")
settings = parser.parse_args(
    command_line.arguments(
        {
            "--synthesizers": "--variants",
            "--dataset": "--task",
            "--buckets": "--lengths",
        }
    )
)
target_length = settings.target_length or settings.sequence_length
command_line.require_at_least(parser, settings, epochs=1, batch_size=1)
checkpoints = command_line.unfinished(parser, settings)

# After the command line: --help does not wait for Keras. And before Keras, so
# that TensorFlow starts in silence.
from keras_synth import (
    callbacks,
    datasets,
    files,
    losses,
    metrics,
    model_card,
    models,
    reporting,
    schedules,
)

# isort: split
import keras
import keras_hub
import numpy as np
from rich.progress import track

command_line.check_variants(parser, settings, models.SynthesizerSeq2SeqBackbone)

"""
## Data

Sources and targets to train on and to validate on. To test, each source has
one reference translation, or several.
"""


def load_data():
    """Returns training, validation and test pairs."""
    name, paths = settings.task, settings.data or []
    if (name == "translations") != (not paths) or len(paths) > 2:
        parser.error(
            f"--task {name} needs --data: a path, for text_pairs perhaps two; "
            f"what is generated takes none. Received: {paths}"
        )
    if settings.languages and name != "multi30k":
        parser.error(f"--task {name} takes no --languages")
    if name == "translations":
        count = (settings.examples or 6000) + 1000
        return split(datasets.generated_translations(count), 500)
    if name == "multi30k":
        return datasets.load_multi30k(
            *paths, *(settings.languages or ("en", "de"))
        )
    if name == "tatoeba":
        return datasets.load_tatoeba(*paths)
    if name == "dialogsum":
        return datasets.load_dialogsum(*paths, validation_fraction=0.1)
    if name == "personachat":
        return datasets.load_personachat(*paths, validation_fraction=0.1)
    pairs = datasets.load_translations(*paths, skip_empty=settings.skip_empty)
    return split(pairs, max(1, len(pairs[0]) // 20))


def split(pairs, count):
    """Holds out `count` pairs to validate on and as many to test on."""
    order = np.random.default_rng(0).permutation(len(pairs[0]))
    parts = order[2 * count :], order[:count], order[count : 2 * count]
    return [tuple([side[i] for i in part] for side in pairs) for part in parts]


def first(pairs, count):
    return tuple(side[: count or None] for side in pairs)


with command_line.errors_in_options(parser, settings):
    train, validation, test = load_data()
train = first(train, settings.examples)
test_sources, references = first(test, settings.test_examples)
if isinstance(references[0], str):
    references = [[text] for text in references]
print(
    f"{len(train[0]):,} pairs to train on, {len(validation[0]):,} to validate "
    f"on, {len(test_sources):,} to test on"
)

"""
## Tokens

One vocabulary of byte pairs serves both languages, so that the embedding of a
name is the same in both. It is learned from the training texts alone. Byte
pairs give texts back to the letter: what is scored needs no guess about spaces.
"""

started = time.perf_counter()
tokenizer = models.SynthesizerBytePairTokenizer.from_texts(
    [*train[0], *train[1]], settings.vocabulary_size
)
preprocessor = models.SynthesizerSeq2SeqLMPreprocessor(
    tokenizer, settings.sequence_length, target_length
)


def tokenized(pairs):
    """Returns features, labels and weights as arrays."""
    x, y, weight = preprocessor(
        {"encoder_text": list(pairs[0]), "decoder_text": list(pairs[1])}
    )
    to_numpy = keras.ops.convert_to_numpy
    return (
        {name: to_numpy(values) for name, values in x.items()},
        to_numpy(y),
        to_numpy(weight).astype("float32"),
    )


train_features, train_labels, train_weight = tokenized(train)
validation_features, validation_labels, validation_weight = tokenized(
    validation
)
print(
    f"{tokenizer.vocabulary_size():,} byte pairs, all texts tokenized "
    f"({time.perf_counter() - started:.1f} s)"
)

"""
Batches hold pairs of about equal length, source and target padded to one of
the `--lengths`: few shapes, which JAX and XLA compile a step for each, and
little padding.
"""


def batches_of(features, labels, weight, **options):
    return datasets.LengthBuckets(
        features,
        labels,
        settings.batch_size,
        settings.lengths,
        sample_weight=weight,
        **options,
    )


validation_batches = batches_of(
    validation_features, validation_labels, validation_weight, shuffle=False
)

"""
## Model

Encoder and decoder take the synthesizer; what the decoder reads of the source
goes through dot-product attention, for which the paper found no replacement.
The learning rate rises for a tenth of the steps and falls to 0 along a cosine.
`keras_synth.schedules.InverseSquareRootDecay` is the one of the Transformer's
paper, for longer trainings: after ten epochs of Multi30K it is still high.
"""


def build_model(name, steps):
    backbone = models.SynthesizerSeq2SeqBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=settings.num_layers,
        num_heads=settings.num_heads,
        hidden_dim=settings.hidden_dim,
        intermediate_dim=settings.intermediate_dim,
        synthesizer=name,
        dropout=settings.dropout,
        max_sequence_length=settings.sequence_length,
        max_decoder_length=target_length,
        positions=settings.positions,
    )
    model = models.SynthesizerSeq2SeqLM(backbone)
    schedule = schedules.cosine_with_warmup(settings.learning_rate, steps)
    model.compile(
        optimizer=keras.optimizers.Adam(schedule, beta_2=0.98, epsilon=1e-9),
        loss=losses.LabelSmoothedCrossentropy(settings.label_smoothing),
        weighted_metrics=[metrics.TokenAccuracy()],
    )
    return model


"""
## Training

After each epoch all that training needs to go on is written to a file, so that
the same command with `--resume` goes on from there, along the same curve.
"""


class History(keras.callbacks.Callback):
    """Notes the validation loss of each epoch, and sets that of batches."""

    def __init__(self, batches, history):
        super().__init__()
        self.batches, self.history = batches, history

    def on_epoch_begin(self, epoch, logs=None):
        self.batches.epoch = epoch
        self.started = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.history["loss"].append(float(logs["loss"]))
        self.history["val_loss"].append(float(logs["val_loss"]))
        self.history["val_accuracy"].append(float(logs["val_accuracy"]))
        self.history["seconds"].append(time.perf_counter() - self.started)


def train_model(name):
    """Returns a trained model and its history."""
    keras.utils.set_random_seed(settings.seed)
    keras.config.set_dtype_policy(settings.dtype_policy)
    batches = batches_of(
        train_features,
        train_labels,
        train_weight,
        drop_remainder=True,
        seed=settings.seed,
    )
    model = build_model(name, settings.epochs * len(batches))
    history = {"loss": [], "val_loss": [], "val_accuracy": [], "seconds": []}
    checkpoint = callbacks.EpochCheckpoint(
        settings.output / f"{name}.npz", history, settings.seed
    )
    epoch = checkpoint.restore(model)
    if epoch:
        print(f"Going on after epoch {epoch}")
    model.fit(
        batches,
        validation_data=validation_batches,
        initial_epoch=epoch,
        epochs=max(epoch, settings.epochs),
        callbacks=[History(batches, history), checkpoint],
        verbose=2,
    )
    model.preprocessor = preprocessor
    return model, history


"""
## Writing

The model writes in batches of equal size, sources of about equal length
together: a batch takes as long as its longest text.
"""


def write(model, sources, size=100):
    """Returns the texts that a compiled model writes for sources."""
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    written = [""] * len(sources)
    for start in track(range(0, len(order), size), "Writing"):
        some = order[start : start + size]
        # The last batch is filled up: one shape, one compilation.
        filled = [sources[i] for i in some] + [""] * (size - len(some))
        texts = model.generate(filled, max_length=target_length)
        for i, text in zip(some, texts, strict=False):
            written[i] = text
    return written


def exact(written):
    """Returns the share of texts that are a reference, in percent."""
    right = [t in r for t, r in zip(written, references, strict=True)]
    return 100 * float(np.mean(right))


def report_samples(written):
    for i in np.linspace(0, len(written) - 1, SAMPLES).astype(int):
        print(f"  source     {test_sources[i][:300]!r}")
        print(f"  reference  {references[i][0]!r}")
        print(f"  written    {written[i]!r}")


"""
## Saving

A preset holds model and vocabulary; its card says what it is and how to load
it.
"""

USAGE = """
from keras_synth import models

model = models.SynthesizerSeq2SeqLM.from_preset("{folder}")
print(model.generate({text!r}))
"""


def save(model, name, scores):
    model.save_to_preset(settings.output / name)
    generated = settings.task == "translations"
    model_card.write_model_card(
        settings.output / name,
        f"SynthesizerSeq2SeqLM, {settings.task}, {name}",
        "Writes a text for a text. A `SynthesizerSeq2SeqLM` of keras_synth: "
        f"{settings.num_layers} blocks in encoder and decoder each, "
        f"self-attention {name}.",
        f"The task `{settings.task}`{', generated' if generated else ''}: "
        f"{len(train[0]):,} pairs of texts. Epochs: {settings.epochs}.",
        {
            **{
                f"BLEU, test, {x['sampler']}": f"{x['bleu']:.2f}"
                for x in scores
            },
            "sacrebleu": scores[0]["signature"].replace("|", " "),
            "parameters": f"{model.count_params():,}",
        },
        USAGE.format(folder=name, text=test_sources[0]),
        licence="apache-2.0" if generated else None,  # of other data, unknown
    )


"""
## Run
"""

settings.output.mkdir(parents=True, exist_ok=True)
samplers = {"greedy": "greedy"}
if settings.beams > 1:
    samplers[f"beam {settings.beams}"] = keras_hub.samplers.BeamSampler(
        num_beams=settings.beams
    )
results = []
for name in settings.variants:
    print(f"\n{name} on {keras.backend.backend()}")
    model, history = train_model(name)
    for sampler_name, sampler in samplers.items():
        model.compile(sampler=sampler)
        started = time.perf_counter()
        written = write(model, test_sources)
        score, signature = metrics.bleu(written, references)
        results.append(
            {
                "variant": name,
                "sampler": sampler_name,
                "bleu": score,
                "signature": signature,
                "rouge_l": metrics.rouge_l(written, references)[0],
                "exact": exact(written),
                "seconds": time.perf_counter() - started,
                "parameters": model.count_params(),
                "history": history,
                "written": written,
            }
        )
        print(f"{name}, {sampler_name}: BLEU {score:.2f}")
    report_samples(written)
    save(model, name, results[-len(samplers) :])

"""
## Report

Scores of all models with the signature of sacrebleu, and the learning curves.
"""


headings = (
    "variant/sampler/BLEU/ROUGE-L/exact\n%/writing\ns/training\ns/parameters"
)
reporting.print_table(
    f"{settings.task}, {keras.backend.backend()} backend, seed {settings.seed}",
    headings.split("/"),
    [
        [
            run["variant"],
            run["sampler"],
            f"{run['bleu']:.2f}",
            f"{run['rouge_l']:.2f}",
            f"{run['exact']:.1f}",
            f"{run['seconds']:.0f}",
            f"{sum(run['history']['seconds']):.0f}",
            f"{run['parameters']:,}",
        ]
        for run in results
    ],
    caption=f"sacrebleu {results[0]['signature']}",
)
with reporting.picture(settings.output / "learning_curves.png") as axes:
    for i, run in enumerate(results[:: len(samplers)]):
        epochs = np.arange(1, len(run["history"]["loss"]) + 1)
        label = f"{run['variant']} (BLEU {run['bleu']:.1f})"
        axes.plot(epochs, run["history"]["val_loss"], f"C{i}-", label=label)
        axes.plot(epochs, run["history"]["loss"], f"C{i}:", alpha=0.7)
    axes.set_ylabel("loss (line: validation, dots: training)")
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

What the decoder reads of the source goes through cross-attention, which
compares tokens whatever the synthesizer. It does much of the work: even R
learns the generated language, though it takes more epochs than V at first. The
paper finds the same on its data: all but fixed random attention come within a
point or so of the Transformer, and R+V is above it.
"""
