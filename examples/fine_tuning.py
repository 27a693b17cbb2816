"""
Title: Fine-tuning a pretrained encoder
Author: The keras_synth authors
Date created: 2026/11/22
Last modified: 2026/11/24
Description: Train a classifier from a pretrained preset, and from scratch.
Accelerator: None
"""

"""
## Introduction

Does it help to have read before? This example takes the encoder that
`examples/pretraining.py` made (or any preset of a `SynthesizerBackbone`), puts
a classifier on top, and trains it on a task with few labels: once from the
pretrained weights, once from random ones, all else being the same.

```shell
python examples/pretraining.py
python examples/fine_tuning.py --init pretrained/R+V
python examples/fine_tuning.py --task stsb --data STS-B
python examples/fine_tuning.py --task csv --data mine.csv --label topic
```

Each task has its own figures: Matthews' correlation for CoLA, F1 for MRPC,
correlations for STS-B, whose labels are scores; all others have accuracy. With
`--init`, `keras-synth compare` does the same with many seeds.

## Setup
"""

import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras_synth_command

scores = ["accuracy", "matthews", "f1", "pearson"]
script = keras_synth_command.script(
    __doc__, objectives=scores, epochs=10, output="fine_tuned"
)
script.add(
    "--init",
    default="pretrained/R+V",
    metavar="PRESET",
    help="encoder to start from, such as pretraining.py makes",
)
script.parser.set_defaults(examples=1_000)
settings = script.parse()

import keras

from keras_synth import batches, callbacks, models, optimizers
from keras_synth.compare import initial

BATCH_SIZE, LENGTHS = 32, (32,)  # shorter texts are padded to 32 tokens
LEARNING_RATE, WEIGHT_DECAY = 1e-3, 0.01

"""
## Data

The tokenizer is the preset's: its vocabulary belongs to the weights. Of labels
that are scores there are no names of classes.
"""

train, validation, test, class_names = script.load()
are_pairs = isinstance(train[0], tuple)
with script.errors():
    (preset, *_) = initial.presets(settings.init)
    source = models.SynthesizerBackbone.from_preset(preset)
    preprocessor = models.SynthesizerTextClassifierPreprocessor(
        models.SynthesizerTokenizer.from_preset(preset),
        source.max_sequence_length,
        keep="end",
        with_segments=are_pairs,
    )


def batches_of(examples, **options):
    x, y = preprocessor(*examples)
    return batches.LengthBuckets(x, y, BATCH_SIZE, LENGTHS, **options)


train_batches = batches_of(train, seed=settings.seed)
validation_batches = batches_of(validation, shuffle=False)
test_batches = batches_of(test, shuffle=False)

"""
## Model

Pairs get an embedding that tells the first text from the second; it is new, and
all else comes from the preset.
"""


def build_classifier(start):
    keras.utils.set_random_seed(settings.seed)
    config = {**source.get_config(), "num_segments": 2 if are_pairs else 0}
    backbone = models.SynthesizerBackbone.from_config(config)
    if start == "pretrained":
        models.copy_weights(source, backbone)
    classifier = models.SynthesizerTextClassifier(
        backbone,
        num_classes=len(class_names) or 1,
        class_names=class_names or None,
    )
    classifier.compile(
        optimizers.adamw(
            LEARNING_RATE, WEIGHT_DECAY, script.steps(train_batches)
        ),
        loss="auto" if class_names else keras.losses.MeanSquaredError(),
        metrics=["accuracy"] if class_names else [],
    )
    return classifier


"""
## Training

After each epoch all that training needs to go on is in a file: the same command
with `--resume` goes on from there.
"""

for start in ("pretrained", "random"):
    classifier = build_classifier(start)
    path = script.checkpoint(start)
    history = callbacks.fit_from_checkpoint(
        classifier, train_batches, path, settings.epochs, validation_batches
    )
    found = script.objective.evaluate(classifier, test_batches)
    figures = {name: found[name] for name in script.objective.metrics}
    figures = figures or {script.objective.score.name: found["score"]}
    classifier.preprocessor = preprocessor  # from here on it takes texts
    data = f"{len(train[1]):,} examples"
    script.save(classifier, start, history, figures, data)
script.report("accuracy" if class_names else "loss")

"""
## What to look for

Half of the generated reviews cannot be classified by their words alone. On
1,000 of them random weights fit the training reviews and stay near the 75% of a
bag of words; weights that have read 8,000 without labels, which words belong
together and where, learn the rule. A test set of a few hundred examples does
not resolve differences of two per cent: repeat it with another `--seed`.
"""
