"""
Title: Pretraining on plain text
Author: The keras_synth authors
Date created: 2026/11/22
Last modified: 2026/11/22
Description: Pretrain an encoder by masked tokens, or a T5 by span corruption.
Accelerator: None
"""

"""
## Introduction

Labels are rare, text is not. A model that has learned to guess what is missing
in plain text starts every later task from there: `examples/fine_tuning.py`.
There are two ways to leave something out:

- `mlm`, as BERT: 15% of the tokens are hidden, and an encoder
  (`SynthesizerMaskedLM`) guesses them;
- `span_corruption`, as T5: spans of about three tokens are cut out, and a
  decoder (`SynthesizerSeq2SeqLM`) writes them.

It reads a text file or a folder of such, or, if no data is given, reviews that
it generates. Run it as

```shell
python examples/pretraining.py
python examples/pretraining.py --data novels --synthesizer R+V --steps 20000
python examples/pretraining.py --objective span_corruption --output t5
```

and choose the backend with `KERAS_BACKEND=jax`, `tensorflow` or `torch`. The
output is a preset with a model card: `from_preset` loads it on any backend.

## Setup
"""

import argparse
import json
import os
import random

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras_synth_command

keras_synth_command.keras_waits = True  # for the command line

from keras_synth import command_line

SENTINELS = 100  # ids at the end of a T5's vocabulary, for what is cut out
SMOOTHING = 25  # steps over which the picture's loss curve is averaged

parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
add = command_line.adder(parser)
add("--data", metavar="PATH", help="a text file, UTF-8, or a folder of such")
add(
    "--objective",
    choices=["mlm", "span_corruption"],
    default="mlm",
    help="guess hidden tokens, or write what was cut out",
)
add("--synthesizer", default="R+V", metavar="X", help="of self-attention")
add("--steps", type=int, default=1_000, help="training steps")
add(
    "--steps-per-epoch",
    type=int,
    default=200,
    help="steps between two validations and checkpoints",
)
add("--batch-size", type=int, default=32, help="windows per training step")
add("--sequence-length", type=int, default=64, help="of a window, in tokens")
add("--vocabulary-size", type=int, default=8_000, help="tokens, at most")
add("--num-layers", type=int, default=2, help="blocks")
add("--num-heads", type=int, default=4, help="of each block")
add("--hidden-dim", type=int, default=64, help="model width")
add("--dropout", type=float, default=0.1, help="share to drop in training")
add("--learning-rate", type=float, default=2e-3, help="the highest one")
add("--weight-decay", type=float, default=0.01, help="of AdamW")
command_line.add_training(add, "pretrained")
settings = parser.parse_args()
command_line.require_at_least(
    parser, settings, steps=1, steps_per_epoch=1, vocabulary_size=300
)
checkpoint_path = settings.output / "checkpoint.npz"
if checkpoint_path.exists() and not settings.resume:
    parser.error(
        f"a run in {settings.output} has not ended. Pass --resume to go on "
        "with it, or another --output"
    )

# After the command line: --help does not wait for Keras. And before Keras, so
# that TensorFlow starts in silence.
from keras_synth import (
    batches,
    callbacks,
    datasets,
    files,
    losses,
    metrics,
    model_card,
    models,
    optimizers,
    pretraining,
    reporting,
    schedules,
)

# isort: split
import keras
import numpy as np

"""
## Data

The end of each text, a fiftieth, is validated on. A vocabulary is learned from
the rest: word pieces for an encoder, byte pairs for a model that writes.
"""

is_t5 = settings.objective == "span_corruption"
with command_line.errors_in_options(parser, settings):
    if settings.data is None:
        texts = ["\n".join(datasets.generated_reviews(8_000, seed=2)[0])]
    else:
        texts = datasets.load_texts(settings.data)


def lines(texts):
    return [x for text in texts for x in text.split("\n") if x.strip()]


borders = [len(text) * 49 // 50 for text in texts]
splits = [
    lines(text[:border] for text, border in zip(texts, borders, strict=True)),
    lines(text[border:] for text, border in zip(texts, borders, strict=True)),
]


def learned_tokenizer():
    count = min(len(splits[0]), 100_000)  # more lines take long
    sample = random.Random(0).sample(splits[0], count)
    if is_t5:
        return models.SynthesizerBytePairTokenizer.from_texts(
            sample, settings.vocabulary_size - SENTINELS
        )
    return models.SynthesizerTokenizer.from_texts(
        sample, settings.vocabulary_size
    )


def kept_tokenizer(folder):
    """The tokenizer of a run that was stopped: its preset is not whole yet."""
    if is_t5:
        return models.SynthesizerBytePairTokenizer(
            str(folder / "vocabulary.json"), str(folder / "merges.txt")
        )
    return models.SynthesizerTokenizer(str(folder / "vocabulary.txt"))


assets = settings.output / "assets" / "tokenizer"
if settings.resume and assets.exists():
    tokenizer = kept_tokenizer(assets)
else:
    tokenizer = learned_tokenizer()
    tokenizer.save_to_preset(settings.output)
vocabulary_size = tokenizer.vocabulary_size() + SENTINELS * is_t5


def token_ids(lines):
    """The tokens of all lines, one after the other."""
    rows = []
    for start in range(0, len(lines), 512):
        rows += tokenizer(lines[start : start + 512])
    return np.concatenate(rows).astype("int32")


train_ids, validation_ids = map(token_ids, splits)
print(
    f"{len(train_ids):,} tokens to train on, {len(validation_ids):,} to "
    f"validate on; {vocabulary_size:,} different ones"
)

"""
What is left out is drawn by NumPy from seed, epoch and place, so every backend
and every model sees the same. To validate, it is the same each time.
"""


def corrupted(ids, **options):
    if is_t5:
        return pretraining.SpanCorruption(
            ids,
            settings.sequence_length,
            vocabulary_size,
            end_token_id=tokenizer.end_token_id,
            start_token_id=tokenizer.start_token_id,
            batch_size=settings.batch_size,
            seed=settings.seed,
            **options,
        )
    rows = pretraining.pack_tokens(
        ids,
        settings.sequence_length,
        tokenizer.start_token_id,
        tokenizer.end_token_id,
    )
    return pretraining.MaskedTokens(
        rows,
        mask_token_id=tokenizer.mask_token_id,
        vocabulary_size=vocabulary_size,
        special_token_ids=preprocessor.special_token_ids,
        batch_size=settings.batch_size,
        seed=settings.seed,
        **options,
    )


length = settings.sequence_length
with command_line.errors_in_options(parser, settings):
    if is_t5:
        preprocessor = models.SynthesizerSeq2SeqLMPreprocessor(
            tokenizer, length, length
        )
    else:
        preprocessor = models.SynthesizerMaskedLMPreprocessor(
            tokenizer, sequence_length=length
        )
    train_batches = batches.StepsPerEpoch(
        corrupted(train_ids), settings.steps_per_epoch
    )
    validation_batches = corrupted(validation_ids, shuffle=False)

"""
## Model

`t5_tiny` is T5's form at a small size: RMS normalisation, no biases. Only
attention differs from one `--synthesizer` to another.
"""


def build_model():
    size = {
        "num_layers": settings.num_layers,
        "num_heads": settings.num_heads,
        "hidden_dim": settings.hidden_dim,
        "intermediate_dim": 4 * settings.hidden_dim,
        "dropout": settings.dropout,
        "max_sequence_length": length,
        "vocabulary_size": vocabulary_size,
    }
    if is_t5:
        key_dim = settings.hidden_dim // settings.num_heads
        config = models.t5_tiny(
            settings.synthesizer,
            **size,
            key_dim=key_dim,
            cross_num_heads=settings.num_heads,
            cross_key_dim=key_dim,
        )
        backbone = models.SynthesizerSeq2SeqBackbone(**config)
        return models.SynthesizerSeq2SeqLM(backbone)
    backbone = models.SynthesizerBackbone(
        synthesizer=settings.synthesizer, **size
    )
    return models.SynthesizerMaskedLM(backbone)


"""
## Training

After each epoch all that training needs to go on is written to a file, so that
the same command with `--resume` goes on from there, along the same curve.
"""


class Validation(keras.callbacks.Callback):
    """Notes the log-perplexity after each epoch."""

    def on_epoch_end(self, epoch, logs=None):
        nats = float(scorer.evaluate(validation_batches, verbose=0)[1])
        history["validation"].append(nats)
        step = (epoch + 1) * settings.steps_per_epoch
        print(f"step {step}: log-perplexity {nats:.3f}", flush=True)


keras.utils.set_random_seed(settings.seed)
keras.config.set_dtype_policy(settings.dtype_policy)
with command_line.errors_in_options(parser, settings):
    model = build_model()
epochs = -(-settings.steps // settings.steps_per_epoch)
model.compile(
    optimizer=optimizers.adamw(
        schedules.cosine_with_warmup(
            settings.learning_rate, epochs * settings.steps_per_epoch
        ),
        settings.weight_decay,
    ),
    loss=losses.LabelSmoothedCrossentropy(),
    weighted_metrics=[],
)
scorer = metrics.token_scorer(model)
history = {name: [] for name in (*callbacks.STEPS, "validation")}
checkpoint = callbacks.EpochCheckpoint(checkpoint_path, history, settings.seed)
epoch = checkpoint.restore(model)
if epoch:
    print(f"Going on after step {epoch * settings.steps_per_epoch}")
timed = callbacks.TimedBatches(train_batches)
model.fit(
    timed,
    initial_epoch=epoch,
    epochs=max(epoch, epochs),
    callbacks=[callbacks.StepLog(timed, history), Validation(), checkpoint],
    verbose=2,
)
if epoch >= epochs:  # it was stopped after training: its weights are wanted
    checkpoint.set_model(model)
    checkpoint.on_train_begin()

"""
## Report

What would be guessed without looking at the text, by how often each token
occurs, is the first thing to beat.
"""


def guessed(batches):
    """How often each token is to be guessed."""
    counts = np.zeros(vocabulary_size)
    for index in range(len(batches)):
        _, labels, weights = batches[index]
        np.add.at(counts, labels[weights > 0], 1)
    return counts


counts = guessed(train_batches) + 1
asked = guessed(validation_batches)
unigram = -(asked @ np.log(counts / counts.sum())) / asked.sum()
speed = callbacks.speed(history)
figures = {
    "log-perplexity, validation": f"{history['validation'][-1]:.3f}",
    "log-perplexity of unigrams": f"{unigram:.3f}",
    "training steps": f"{len(history['losses']):,}",
    "parameters": f"{model.count_params():,}",
}
reporting.print_table(
    f"{settings.objective}, {settings.synthesizer}, "
    f"{keras.backend.backend()} backend, seed {settings.seed}",
    ["", "value"],
    [
        *map(list, figures.items()),
        ["steps/s", f"{speed['steps_per_second'] or 0:.2f}"],
    ],
)

model.preprocessor = preprocessor
model.save_to_preset(settings.output)
task = type(model).__name__
model_card.write_model_card(
    settings.output,
    f"{task}, {settings.synthesizer}",
    f"A {task} of [keras_synth](https://arxiv.org/abs/2005.00743): "
    f"{settings.num_layers} block{'s' * (settings.num_layers > 1)} of width "
    f"{settings.hidden_dim}, "
    f"{settings.num_heads} heads, self-attention {settings.synthesizer}, at "
    f"most {length} tokens.",
    f"{len(train_ids):,} tokens of "
    f"{settings.data or 'generated reviews'}, {settings.objective}.",
    figures,
    f"""
from keras_synth import models

model = models.{task}.from_preset("{settings.output.name}")
backbone = model.backbone  # to start another task from
""",
    licence=None if settings.data else "apache-2.0",  # of other data, unknown
)

with reporting.picture(
    settings.output / "curve.png", label="training steps"
) as axes:
    steps = len(history["losses"])
    axes.plot(*reporting.smoothed(history["losses"], SMOOTHING, steps))
    axes.plot(
        np.arange(1, len(history["validation"]) + 1) * settings.steps_per_epoch,
        history["validation"],
        "o",
        label="validation",
    )
    axes.axhline(unigram, color="gray", linestyle=":", label="unigrams")
    axes.set_ylabel(f"log-perplexity (line: training, mean of {SMOOTHING})")
    axes.legend()
with files.writing(settings.output / "results.json") as file:
    results = {"figures": figures, "history": history}
    json.dump(results, file, indent=1)
checkpoint_path.unlink(missing_ok=True)  # what it holds is safe

"""
A masked language model shows what it has learned by filling in.
"""

if not is_t5:
    words = splits[1][-1].split()[: length // 4]
    words[len(words) // 2] = "[MASK]"
    text = " ".join(words)
    print(f"\n{text}")
    for token, share in model.fill_mask(text)[0]:
        print(f"  {token:<12} {share:.2f}")
print(
    "\nThe preset, its model card, results.json and curve.png are in "
    f"{settings.output}/"
)

"""
## What to look for

Log-perplexity falls below that of unigrams within a few hundred steps, and
stands there for a while: frequencies are learned first, then which tokens go
together. On the generated reviews little is left to guess after a minute; real
text, and a model of use to other tasks, takes hours.
"""
