"""
Title: Pretrain and fine-tune
Description: Pretrain an encoder on plain text with masked tokens, save it as a
preset with a model card, and fine-tune it on few labels, against the same
model from scratch.
"""

"""
## Introduction

Texts are frequent, but labels are rare. A model that predicts hidden words in
plain text learns which words occur together and in which order. A classifier
that starts from its weights has less to learn from labels.

Like [BERT](https://arxiv.org/abs/1810.04805), we pretrain a small encoder,
with a mixture of Random (R) and dot product (V), on reviews without labels. We
save it, and fine-tune it on a few hundred labelled reviews. The baseline is
the same classifier with random initial weights.
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

`generated_reviews` generates reviews of a few sentences. We discard their
labels. Half of them are easy, because most of their adjectives praise or
blame. The others are pairs with the same words, "not dull but moving" and "not
moving but dull", so that counting words does not help.
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
The vocabulary is learned from the same texts. A masked language model needs
the `[MASK]` token of `SynthesizerTokenizer` (WordPiece).
"""

tokenizer = models.SynthesizerTokenizer.from_texts(
    plain_texts, vocabulary_size=1_000
)
print(f"{tokenizer.vocabulary_size()} word pieces")

"""
## Pretraining

`SynthesizerMaskedLM` is a backbone with a layer that predicts tokens. With a
preprocessor it accepts strings. `fit` hides a fraction of the tokens of each
text, different ones in each epoch. `evaluate` always hides the same tokens.
BERT hides 15%. These texts are short and simple, so we hide a quarter.
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
The baseline predicts tokens by their frequencies, without the text. Losses are
in nats per hidden token:
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
## Predicting hidden words

`fill_mask` returns the most likely tokens for each `[MASK]`, with
probabilities. The first questions are about phrases, and the last two are
about opinions: "not dull but ..." needs a positive adjective.
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
If only one word is possible, the model predicts it. The last two answers are
similar, whichever word is denied. Positive and negative adjectives are equally
frequent after "but". To predict them better, the model would have to learn the
class of eighty adjectives, which takes longer than a few minutes.

## A preset with a model card

`save_to_preset` writes weights, configuration and vocabulary to a folder. The
model card, a `README.md`, describes the model, its data, its scores and how to
load it. Model hubs show it.
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
preprocessor=None)` makes a classifier with the pretrained backbone. Here, we
show each step and also make the model from scratch: a new backbone with the
same configuration, and `copy_weights`, which copies the weights and returns
the names of new ones. (The new backbone may have additional weights, such as
`num_segments=2` for pairs of texts.)
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
Both models have the same labelled reviews, number of steps, learning rates and
seed. The plain texts contain neither the labelled reviews nor the test
reviews. A bag of words can be right on at most three quarters.
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
Both models fit their training reviews. The pretrained model is more often
right on other reviews, because it learned phrases and their order before. With
600 test reviews, a score is uncertain by a point or two, so repeat this with
other seeds before you trust such a difference.

These texts favour pretraining: they are generated with one vocabulary and a
few sentence patterns, and the plain texts are of the same kind as the labelled
ones. Real text needs hours of pretraining.

## For the real thing

- `examples/pretraining.py` pretrains on a text file or a folder of text files.
  `keras-synth train --task masked_lm` trains models of any size, and packs the
  tokens of long texts into full rows. `--task span_corruption` trains models
  that generate text, like T5.
- For more complex data, hide 15% and use dropout 0.1.
- Fine-tune with a smaller learning rate than in pretraining, and with several
  seeds. With few labels, seeds differ by several points.
- `keras-synth compare --task masked_lm` pretrains a grid of variants, and
  `--init` fine-tunes them, to find the synthesizer that gains most.
"""
