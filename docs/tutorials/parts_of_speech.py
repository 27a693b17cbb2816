"""
Title: A label for each word
Description: Train a tagger of parts of speech on UD English EWT, compare it
with a dictionary on known and new words, and tag your own sentences.
"""

"""
## Introduction

Is *watch* a noun or a verb? That depends on the words around it. A tagger
labels each word of a sentence, here with its part of speech.

The tagger is an encoder with a dense layer at each token. Its attention is
`"relative + V"`: dot products (V), and a trained weight for each distance
between two words, because part of speech mostly depends on nearby words. The
baseline is a dictionary with the most frequent label of each word.
"""

import collections
import itertools
import os
import pathlib

import keras
import matplotlib.pyplot as plt
import numpy as np

from keras_synth import datasets, models

SEED = 0
keras.utils.set_random_seed(SEED)

"""
## Data

[UD English EWT](https://github.com/UniversalDependencies/UD_English-EWT) has
12,544 sentences from weblogs, mails, reviews and answers, labelled by people.
Set `KERAS_SYNTH_DATA` to a folder with `ud_english_ewt`, or put it next to the
notebook. Otherwise, sentences are generated, and their labels are persons,
places and organizations. Long sentences are cut into parts of 24 words.
"""

WORDS = 24


def cut(rows):
    return [
        row[start : start + WORDS]
        for row in rows
        for start in range(0, len(row), WORDS)
    ]


folder = os.environ.get("KERAS_SYNTH_DATA", ".")
treebank = pathlib.Path(folder, "ud_english_ewt")
if treebank.is_dir():
    name, epochs = "ud_ewt", 4
    train, test = (
        datasets.read(treebank / f"en_ewt-ud-{split}.conllu.gz")
        for split in ("train", "test")
    )
else:
    name, epochs = "generated_entities", 2
    train = datasets.generated_entities(2_000, seed=2 * SEED)
    test = datasets.generated_entities(300, seed=2 * SEED + 1)
train, test = ([cut(rows) for rows in split] for split in (train, test))
kinds = sorted({label for row in train[1] for label in row})
print(f"{name}: {sum(map(len, train[0])):,} words, {len(kinds)} labels")
for word, label in zip(train[0][1][:8], train[1][1], strict=False):
    print(f"{word:12} {label}")

"""
## The dictionary

The dictionary contains the words of the training text. New words have the most
frequent label of all words.
"""

counts = collections.defaultdict(collections.Counter)
for words, labels in zip(*train, strict=True):
    for word, label in zip(words, labels, strict=True):
        counts[word][label] += 1
totals = sum(counts.values(), collections.Counter())
most_frequent = max(totals, key=totals.get)
dictionary = {word: max(seen, key=seen.get) for word, seen in counts.items()}
looked_up = [
    [dictionary.get(word, most_frequent) for word in words] for words in test[0]
]


def accuracies(found):
    """The share of words labelled right: of all, known and new ones."""
    right = {"all words": [], "known words": [], "new words": []}
    for words, labels, own in zip(*test, found, strict=True):
        for word, label, guess in itertools.zip_longest(words, labels, own):
            known = "known words" if word in dictionary else "new words"
            right["all words"].append(label == guess)
            right[known].append(label == guess)
    return {name: np.mean(values) for name, values in right.items() if values}


scores = {"dictionary": accuracies(looked_up)}
for group, value in scores["dictionary"].items():
    print(f"dictionary, {group:11} {value:.1%}")

"""
## A tagger

The tokenizer cuts rare words into pieces. With only 1,500 pieces, many words
are cut, and the model learns from endings such as *-ing* or *-ly*, which helps
with new words. Each word's label is assigned to its first piece. The other
pieces do not count.

`fit` accepts lists of words and lists of labels. In parts with more than 48
pieces, the last words have no predicted label and count as wrong.
"""

LENGTH = 48  # pieces
pieces = models.SynthesizerBytePairTokenizer.from_texts(
    [" ".join(words) for words in train[0]], vocabulary_size=1_500
)
print(pieces.tokenize("unhappily"))

backbone = models.SynthesizerBackbone(
    vocabulary_size=pieces.vocabulary_size(),
    num_layers=2,
    num_heads=4,
    hidden_dim=64,
    intermediate_dim=128,
    synthesizer="relative(max_distance=8) + V",
    max_sequence_length=LENGTH,
)
tagger = models.SynthesizerTokenClassifier(
    backbone,
    num_classes=len(kinds),
    preprocessor=models.SynthesizerTokenClassifierPreprocessor(
        pieces, sequence_length=LENGTH
    ),
    class_names=kinds,
)
steps = epochs * len(train[0]) // 32
tagger.compile(
    optimizer=keras.optimizers.Adam(
        keras.optimizers.schedules.CosineDecay(3e-3, steps)
    )
)
tagger.fit(*train, batch_size=32, epochs=epochs, verbose=2)

"""
`tag` returns a label for each word:
"""

found = tagger.tag(test[0])
scores["tagger"] = accuracies(found)
for group, value in scores["tagger"].items():
    print(f"tagger, {group:11} {value:.1%}")

groups = [*scores["tagger"]]
places = np.arange(len(groups))
figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
for i, (title, values) in enumerate(scores.items()):
    heights = [100 * values[group] for group in groups]
    bars = axis.bar(places + 0.4 * (i - 0.5), heights, 0.38, label=title)
    axis.bar_label(bars, fmt="%.1f")
axis.set(
    xticks=places,
    xticklabels=groups,
    ylabel="words labelled right, %",
    ylim=(0, 108),
)
figure.legend(ncols=2, loc="outside upper center")
plt.show()

"""
The tagger is better because of new words. On known words, the dictionary is
slightly better: with twelve thousand sentences, it is a strong baseline.

## Where is it wrong?

The most frequent confusions, as fractions of all mistakes:
"""

mistakes = collections.Counter(
    (label, guess)
    for labels, own in zip(test[1], found, strict=True)
    for label, guess in zip(labels, own, strict=False)
    if label != guess
)
for (label, guess), count in mistakes.most_common(5):
    share = count / mistakes.total()
    print(f"{label:6} taken for {guess:6} {share:.0%}")

"""
## Your own sentences
"""

for sentence in ["They watch the birds .", "He lost his watch yesterday ."]:
    words = sentence.split()
    (labels,) = tagger.tag([words])
    print(" ".join(f"{w}/{t}" for w, t in zip(words, labels, strict=True)))

"""
The first *watch* is a verb and labelled as one. The second is a noun, but is
also labelled as a verb.

## For the real thing

- Twelve thousand sentences are few. With a pretrained encoder, taggers are
  several points better ([Pretrain and
  fine-tune](pretraining_and_fine_tuning.md)). The [tables of
  accuracy](../benchmarks/accuracy_tables.md) list the scores of four variants,
  pretrained and from scratch.
- If labels mark names of several words (`B-PER`, `I-PER`), score whole names
  instead of words, as in [Beyond text](beyond_text.md).
- `examples/sequence_labelling.py` trains a tagger on your own treebank.
"""
