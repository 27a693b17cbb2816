"""
Title: Text classification with Synthesizers
Author: The keras_synth authors
Date created: 2026/11/21
Last modified: 2026/11/24
Description: Train classifiers with synthesized attention on raw text.
Accelerator: None
"""

"""
## Introduction

A Transformer compares all pairs of tokens to decide who attends to whom. A
[Synthesizer](https://arxiv.org/abs/2005.00743) does not: its attention weights
come from a learned table of positions ("R", or of low rank "FR"), from each
token alone ("D"), or from a learned mixture of these with the usual dot
product ("R+V"). This example trains such classifiers on raw text: reviews that
it generates, published data sets, or your own CSV or TSV file.

```shell
python examples/text_classification.py --variants V R R+V
python examples/text_classification.py --task imdb --data aclImdb_v1.tar.gz
python examples/text_classification.py --task csv --data mine.csv --label topic
```

`KERAS_BACKEND` chooses the backend. `keras-synth compare --task imdb` does the
same in other sizes, with many seeds, and faster, by batches of equal length.

## Setup
"""

import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras_synth_command

scores = ["accuracy", "matthews", "f1"]  # of the tasks to choose from
script = keras_synth_command.script(
    __doc__,
    objectives=scores,
    variants=["R"],
    epochs=3,
    output="text_classification",
    resumes=False,
)
settings = script.parse()

import keras

from keras_synth import callbacks, models, optimizers

SEQUENCE_LENGTH = (
    64  # word pieces; of a longer text its end, where it concludes
)
VOCABULARY_SIZE = 20_000  # word pieces, at most
BATCH_SIZE = 64
NUM_LAYERS, NUM_HEADS, HIDDEN_DIM = 2, 4, 64
LEARNING_RATE = 1e-3

script.check_variants(NUM_HEADS, HIDDEN_DIM, SEQUENCE_LENGTH)

"""
## Data

Strings, or pairs of them, and labels, which are numbers of classes. A WordPiece
vocabulary is learned from the training texts alone.
"""

train, validation, test, class_names = script.load()
texts, labels = train
are_pairs = isinstance(texts, tuple)
tokenizer = models.SynthesizerTokenizer.from_texts(
    [*texts[0], *texts[1]] if are_pairs else texts, VOCABULARY_SIZE
)
preprocessor = models.SynthesizerTextClassifierPreprocessor(
    tokenizer, SEQUENCE_LENGTH, keep="end", with_segments=are_pairs
)

"""
## Model

The backbone is an ordinary pre-norm Transformer encoder; only its attention
differs. A name such as `"R+V"` is all it takes. Where a part has options of
its own, they stand in brackets: `"FR(rank=32) + V"`.
"""


def build_classifier(synthesizer):
    keras.utils.set_random_seed(settings.seed)
    backbone = models.SynthesizerBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=NUM_LAYERS,
        num_heads=NUM_HEADS,
        hidden_dim=HIDDEN_DIM,
        intermediate_dim=4 * HIDDEN_DIM,
        synthesizer=synthesizer,
        max_sequence_length=SEQUENCE_LENGTH,
        num_segments=2 if are_pairs else 0,
    )
    classifier = models.SynthesizerTextClassifier(
        backbone,
        num_classes=len(class_names),
        preprocessor=preprocessor,
        class_names=class_names,
    )
    steps = settings.epochs * -(-len(labels) // BATCH_SIZE)
    classifier.compile(
        optimizers.adamw(LEARNING_RATE, steps=steps), metrics=["accuracy"]
    )
    return classifier


"""
## Training

The learning rate warms up over a tenth of the steps and falls to zero along a
cosine. A preset keeps classifier, vocabulary and class names; its model card
says what it is and how to load it.
"""

for name in settings.variants:
    classifier = build_classifier(name)
    log = callbacks.EpochLog()
    classifier.fit(
        texts,
        labels,
        batch_size=BATCH_SIZE,
        epochs=settings.epochs,
        validation_data=validation,
        callbacks=[log],
        verbose=2,
    )
    _, accuracy = classifier.evaluate(*test, verbose=0)
    figures, data = {"accuracy": accuracy}, f"{len(labels):,} texts"
    script.save(classifier, name, log.history, figures, data)
script.report("accuracy")

"""
## What to look for

On the generated reviews half of the texts come in pairs with the same words
and opposite labels: a bag of words cannot tell them apart and stays at 75%.
Dot-product attention, alone or in a mixture, soon finds out which word "not"
denies; a mixture a little later, since equal alphas halve its logits at the
start, so give it epochs enough. R attends by position, whatever the words: it
must learn about each position by itself, and on texts whose phrases move about
it needs more of them.
"""
