"""
Title: Pretrain and fine-tune
Description: Pretrain an encoder on plain text by masked tokens, look at what it
knows, save it as a preset with a model card, and fine-tune it on few labels,
against the same model from scratch.
"""

"""
## Introduction

Labels are rare, text is not. A model that has learned to guess hidden words in
plain text knows which words go together, and in which order. A classifier that
starts from its weights has less left to learn from labels.

We pretrain a small encoder with a mixture of R and V on reviews without labels,
as [BERT](https://arxiv.org/abs/1810.04805) was, save it, and fine-tune it on a
few hundred labelled reviews. The same classifier from random weights is what to
beat.
"""

import pathlib

import huggingface_hub
import keras
import matplotlib.pyplot as plt
import numpy as np

from keras_synth import datasets, models, training

SEED = 0
LENGTH = 40  # tokens
keras.utils.set_random_seed(SEED)

"""
## Plain text

`generated_reviews` writes reviews of a few sentences. We throw their labels
away. Half of them are easy, since most of their adjectives praise or blame; the
others come in pairs of the same words, "not dull but moving" and "not moving
but dull", so that counting words tells nothing.
"""


def reviews(count, seed):
    return datasets.generated_reviews(
        count, seed=seed, min_sentences=2, max_sentences=3
    )


plain_texts, _ = reviews(8_000, seed=1)
held_out, _ = reviews(500, seed=2)
for text in plain_texts[:3]:
    print(text)

"""
The vocabulary is learned from the same texts. A masked language model needs a
`[MASK]` token, which `SynthesizerTokenizer`, WordPiece, has.
"""

tokenizer = models.SynthesizerTokenizer.from_texts(
    plain_texts, vocabulary_size=1_000
)
print(f"{tokenizer.vocabulary_size()} word pieces")

"""
## Pretraining

`SynthesizerMaskedLM` is a backbone with a layer that guesses tokens. With a
preprocessor it takes strings: `fit` hides a share of the tokens of each text,
others in each epoch, and `evaluate` always the same. BERT hides 15%; these
texts are short and plain, and we learn from a quarter at a time.
"""

EPOCHS, BATCH_SIZE = 4, 32

backbone = models.SynthesizerBackbone(
    vocabulary_size=tokenizer.vocabulary_size(),
    num_layers=2,
    num_heads=4,
    hidden_dim=64,
    intermediate_dim=256,
    synthesizer="R+V",
    dropout=0.0,
    max_sequence_length=LENGTH,
)
masked_lm = models.SynthesizerMaskedLM(
    backbone,
    models.SynthesizerMaskedLMPreprocessor(
        tokenizer, sequence_length=LENGTH, mask_selection_rate=0.25
    ),
)
steps = EPOCHS * len(plain_texts) // BATCH_SIZE


def rates(peak, steps):
    """Learning rates that rise for a tenth of the steps, then fall to 0."""
    warmup = max(1, steps // 10)
    return keras.optimizers.schedules.CosineDecay(
        0.0, steps - warmup, warmup_target=peak, warmup_steps=warmup
    )


masked_lm.compile(
    optimizer=training.adamw(rates(3e-3, steps), weight_decay=0.01)
)
history = masked_lm.fit(
    plain_texts,
    batch_size=BATCH_SIZE,
    epochs=EPOCHS,
    validation_data=held_out,
    verbose=2,
).history

"""
The loss, in nats per hidden token, has to be compared with something: how well
would the frequencies of tokens do, without a look at the text?
"""

counts = np.bincount(
    np.concatenate([tokenizer(text) for text in plain_texts]),
    minlength=tokenizer.vocabulary_size(),
)
shares = counts[counts > 0] / counts.sum()
unigram = -np.sum(shares * np.log(shares))
print(f"frequencies alone:            {unigram:.2f} nats")
print(f"after pretraining, held out:  {history['val_loss'][-1]:.2f} nats")

"""
## What it knows

`fill_mask` returns the likeliest tokens for each `[MASK]`, with probabilities.
The first questions are about what is said in which words, the last two about
opinions: "not dull but ..." asks for an adjective of the other side.
"""

questions = [
    "They filmed all of it in the [MASK] last summer.",
    "The camera stays with the detective for thirty [MASK].",
    "My uncle bought the [MASK] for it on Monday.",
    "The plot was not dull but [MASK].",
    "The plot was not moving but [MASK].",
]
for question, (guesses,) in zip(
    questions, masked_lm.fill_mask(questions, top_k=4), strict=True
):
    print(question)
    print("   ", ", ".join(f"{token} {share:.2f}" for token, share in guesses))

"""
Where only one word fits, it knows that word. The last two answers show what it
does not know: they are much the same, whichever word is denied. Both sides
occur equally often after "but", so to guess better it has to learn of eighty
adjectives which side they are on, which takes longer than the few minutes it
had.

## A preset with a model card

`save_to_preset` writes weights, configuration and vocabulary into a folder. The
model card, a `README.md`, says what is in it: what model, which data, which
figures, how to load it. Model hubs show it, and so does any editor.
"""

masked_lm.save_to_preset("reviews_encoder")
huggingface_hub.ModelCard(
    f"""---
library_name: keras
license: apache-2.0
---
# An encoder of reviews, R+V

Two blocks of width 64 with four heads, at most {LENGTH} tokens. Trained on
{len(plain_texts):,} generated reviews. Nats per hidden token, held out:
{history["val_loss"][-1]:.2f}; of token frequencies: {unigram:.2f}.

    from keras_synth import models

    model = models.SynthesizerMaskedLM.from_preset("reviews_encoder")
    print(model.fill_mask("The plot was not dull but [MASK]."))
"""
).save("reviews_encoder/README.md")
print(*sorted(path.name for path in pathlib.Path("reviews_encoder").iterdir()))
print(pathlib.Path("reviews_encoder/README.md").read_text())

"""
## Fine-tuning

`SynthesizerTextClassifier.from_preset("reviews_encoder", num_classes=2,
preprocessor=None)` would be a classifier with the pretrained backbone already.
Here we take the longer way, which shows each step and gives us the model from
scratch, too: a new backbone of the same configuration, and `copy_weights`,
which fills it and returns the weights that it found nothing for. (The new
backbone may have more than the old one, such as `num_segments=2` for pairs of
texts.)
"""

tokenizer = models.SynthesizerTokenizer.from_preset("reviews_encoder")


def build_classifier(start):
    pretrained = models.SynthesizerBackbone.from_preset("reviews_encoder")
    new = models.SynthesizerBackbone.from_config(pretrained.get_config())
    if start == "pretrained":
        without_source = models.copy_weights(pretrained, new)
        assert not without_source
    return models.SynthesizerTextClassifier(
        new,
        num_classes=2,
        preprocessor=models.SynthesizerTextClassifierPreprocessor(
            tokenizer, sequence_length=LENGTH
        ),
    )


"""
Both starts have the same labelled reviews, number of steps, learning rates and
seed. None of the labelled reviews, and none of those to test on, was among the
plain texts. A bag of words could be right on three quarters at most.
"""

test_texts, test_labels = reviews(600, seed=3)
STEPS = 400


def fine_tune(start, count):
    keras.utils.set_random_seed(SEED)
    texts, labels = reviews(count, seed=4)
    classifier = build_classifier(start)
    epochs = STEPS * BATCH_SIZE // count
    steps = epochs * -(-count // BATCH_SIZE)
    classifier.compile(
        optimizer=training.adamw(rates(1e-3, steps), weight_decay=0.01)
    )
    history = classifier.fit(
        texts, labels, batch_size=BATCH_SIZE, epochs=epochs, verbose=0
    ).history
    _, accuracy = classifier.evaluate(test_texts, test_labels, verbose=0)
    return history, accuracy


sizes = [400, 800]
accuracies = {}
for count in sizes:
    for start in ("random", "pretrained"):
        history, accuracy = fine_tune(start, count)
        accuracies[start, count] = accuracy
        print(
            f"{count} labels, {start:10} weights: training loss "
            f"{history['loss'][-1]:.3f}, test accuracy {accuracy:.1%}"
        )

figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
places = np.arange(len(sizes))
for shift, start in ((-0.2, "random"), (0.2, "pretrained")):
    heights = [100 * accuracies[start, count] for count in sizes]
    bars = axis.bar(places + shift, heights, 0.4, label=f"{start} weights")
    axis.bar_label(bars, fmt="%.0f")
axis.axhline(75, color="gray", linestyle=":", label="best bag of words")
axis.set(
    xticks=places,
    xticklabels=[f"{count} labels" for count in sizes],
    ylabel="test accuracy, %",
    ylim=(40, 105),
)
figure.legend(ncols=3, loc="outside upper center")
plt.show()

"""
Both fit the reviews that they are trained on. What the pretrained model learns
from them holds more often for others: it knew phrases and their order before,
and does not have to read them out of a few hundred labels. On 600 test reviews
a figure is uncertain by a point or two, so repeat this with other seeds before
you trust a difference of that size.

These texts flatter pretraining. A generator made them, with one vocabulary and
a few sentence patterns, and the plain text is of just the kind that the labels
are for. Real text takes hours of pretraining before there is much to transfer.

## For the real thing

- `examples/pretraining.py` pretrains on a text file or a folder of them.
  `keras-synth train --task masked_lm` does it in any size, and packs the tokens
  of long texts into full rows; `--task span_corruption` trains models that
  write, as T5.
- Hide 15% and use dropout 0.1 where there is more to learn than here.
- Fine-tune with a smaller learning rate than you pretrained with, and repeat it
  with several seeds: with few labels they differ by points.
- `keras-synth compare --task masked_lm` pretrains a grid of variants, and
  `--init` fine-tunes them, so that you can ask which synthesizer gains most.
"""
