"""
Title: Sequence labelling with Synthesizers
Author: The keras_synth authors
Date created: 2026/11/22
Last modified: 2026/11/24
Description: Label each word of a sentence with synthesized attention.
Accelerator: None
"""

"""
## Introduction

What part of speech a word is, or what kind of name it is, depends on the words
around it. This example trains taggers on the English Web Treebank, or on
generated sentences in which the same names are persons, places, organisations.

```shell
python examples/sequence_labelling.py --variants V R R+V
python examples/sequence_labelling.py --task ud_ewt --data UD_English-EWT
```

`keras-synth train` does it in other sizes, or from a pretrained encoder.

## Setup
"""

import collections
import itertools
import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras_synth_command

script = keras_synth_command.script(
    __doc__,
    objectives=["word_accuracy"],
    variants=["R+V"],
    epochs=4,
    output="sequence_labelling",
)
settings = script.parse()

import keras
import numpy as np

from keras_synth import batches, callbacks, metrics, models, optimizers

SEQUENCE_LENGTH, LENGTHS = 64, (32,)  # shorter sentences are padded to 32
VOCABULARY_SIZE = 16_000  # large, so that most words are one piece
NUM_LAYERS, NUM_HEADS, HIDDEN_DIM = 2, 4, 64
BATCH_SIZE, LEARNING_RATE = 32, 2e-3

script.check_variants(NUM_HEADS, HIDDEN_DIM, SEQUENCE_LENGTH)

"""
## Data

Sentences are lists of words, with a label for each, which stands at a word's
first piece.
"""

train, validation, test, class_names = script.load()
tokenizer = models.SynthesizerBytePairTokenizer.from_texts(
    [" ".join(words) for words in train[0]], VOCABULARY_SIZE
)
preprocessor = models.SynthesizerTokenClassifierPreprocessor(
    tokenizer, SEQUENCE_LENGTH
)


def batches_of(sentences, labels, **options):
    ids = [[class_names.index(label) for label in row] for row in labels]
    x, y, weight = preprocessor(sentences, ids)
    return batches.LengthBuckets(
        x, y, BATCH_SIZE, LENGTHS, sample_weight=weight, **options
    )


train_batches = batches_of(*train, seed=settings.seed, drop_remainder=True)
validation_batches = batches_of(*validation, shuffle=False)

"""
## Model: an encoder and a dense layer at each token
"""


def build_tagger(synthesizer):
    keras.utils.set_random_seed(settings.seed)
    backbone = models.SynthesizerBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=NUM_LAYERS,
        num_heads=NUM_HEADS,
        hidden_dim=HIDDEN_DIM,
        intermediate_dim=4 * HIDDEN_DIM,
        synthesizer=synthesizer,
        max_sequence_length=SEQUENCE_LENGTH,
    )
    tagger = models.SynthesizerTokenClassifier(
        backbone, num_classes=len(class_names), class_names=class_names
    )
    tagger.compile(
        optimizers.adamw(LEARNING_RATE, steps=script.steps(train_batches))
    )
    return tagger


"""
## Training and scores

After each epoch all that training needs to go on is in a file: the same command
with `--resume` goes on from there. The scores are the share of words labelled
right and, where there are entities, their F1. To be beaten is each word's most
frequent label.
"""


def scores_of(labels, found):
    right = np.concatenate(labels) == np.concatenate(found)
    scores = {"accuracy": float(np.mean(right))}
    if "O" in class_names:
        scores["entity F1"] = metrics.entity_f1(labels, found)
    return scores


counts = collections.defaultdict(collections.Counter)
for word, label in zip(*map(itertools.chain.from_iterable, train), strict=True):
    counts[word][label] += 1
    counts[None][label] += 1
best = {word: max(seen, key=seen.get) for word, seen in counts.items()}
usual = [[best.get(word, best[None]) for word in row] for row in test[0]]
baseline = scores_of(test[1], usual)

for name in settings.variants:
    tagger = build_tagger(name)
    path = script.checkpoint(name)
    history = callbacks.fit_from_checkpoint(
        tagger, train_batches, path, settings.epochs, validation_batches
    )
    tagger.preprocessor = preprocessor  # from here on it takes words
    figures = scores_of(test[1], tagger.tag(test[0]))
    data, more = f"{len(train[0]):,} sentences", {"baseline": baseline}
    script.save(tagger, name, history, figures, data, **more)
script.report("accuracy")
print("Each word's most frequent label:", baseline)

"""
## What to look for

Often the word before or after a generated name tells its kind; in "The baker
wrote about Florence , the harbour" it is the third one on. Dot-product
attention finds such words wherever they stand. Attention by position alone
("R") must learn for each position by itself where to look.
"""
