"""
Title: Labelling words with Synthesizers
Author: The keras_synth authors
Date created: 2026/11/22
Last modified: 2026/11/26
Description: Train a tagger with synthesizers.
Accelerator: None
"""

"""
## Introduction

A tagger labels each word of a sentence, for example with its part of speech, or
as part of a name. This example reads a treebank in CoNLL-U, such as UD
English EWT, or generates sentences with persons, places and organisations.

## Setup
"""

import collections

import keras
import numpy as np

from keras_synth import datasets, models, training

DATA = None  # a file in CoNLL-U
SYNTHESIZER = "R+V"
EXAMPLES = 6_000  # sentences to generate
SEQUENCE_LENGTH = 64
VOCABULARY_SIZE = 16_000  # large enough that most words are one piece
NUM_LAYERS, NUM_HEADS, HIDDEN_DIM = 2, 4, 64
BATCH_SIZE, EPOCHS, LEARNING_RATE = 32, 4, 2e-3
PRESET = "tagger"

"""
## Data

Sentences are lists of words with a label for each word. A tenth of the
sentences is the test set, and none of these is in the training set.
"""

if DATA is None:
    sentences, labels = datasets.generated_entities(EXAMPLES)
else:
    sentences, labels = datasets.read(DATA)
train, test = datasets.train_validation_split(sentences, labels)
class_names = sorted({tag for row in train[1] for tag in row})
tokenizer = models.SynthesizerBytePairTokenizer.from_texts(
    [" ".join(words) for words in train[0]], VOCABULARY_SIZE
)

"""
## Model: an encoder, and a dense layer for each token
"""

keras.utils.set_random_seed(0)
backbone = models.SynthesizerBackbone(
    vocabulary_size=tokenizer.vocabulary_size(),
    num_layers=NUM_LAYERS,
    num_heads=NUM_HEADS,
    hidden_dim=HIDDEN_DIM,
    intermediate_dim=4 * HIDDEN_DIM,
    synthesizer=SYNTHESIZER,
    max_sequence_length=SEQUENCE_LENGTH,
)
tagger = models.SynthesizerTokenClassifier(
    backbone,
    num_classes=len(class_names),
    preprocessor=models.SynthesizerTokenClassifierPreprocessor(
        tokenizer, SEQUENCE_LENGTH
    ),
    class_names=class_names,
)
tagger.compile(training.adamw(LEARNING_RATE))

"""
## Training
"""

tagger.fit(
    *train,
    batch_size=BATCH_SIZE,
    epochs=EPOCHS,
    validation_data=test,
    verbose=2,
)
tagger.save_to_preset(PRESET)

"""
## Results

The fraction of words with the right label. The baseline gives each word its
most frequent label.
"""

counts = collections.defaultdict(collections.Counter)
for words, tags in zip(*train, strict=True):
    for word, tag in zip(words, tags, strict=True):
        counts[word][tag] += 1
usual = {word: seen.most_common(1)[0][0] for word, seen in counts.items()}
guesses = {
    "tagger": tagger.tag(test[0]),
    "most frequent": [
        [usual.get(word, class_names[0]) for word in words] for words in test[0]
    ],
}
right = np.concatenate(test[1])
for name, tags in guesses.items():
    accuracy = np.mean(np.concatenate(tags) == right)
    print(f"{name}: {accuracy:.1%} of the words")
print(*zip(test[0][0], guesses["tagger"][0], strict=True))

"""
Often the word before or after a generated name determines its label. In "The
baker wrote about Florence , the harbour", it is a later word.
"""
