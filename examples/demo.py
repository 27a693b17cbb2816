"""
Title: Attention that learns from positions or from words
Author: The keras_synth authors
Date created: 2026/11/22
Last modified: 2026/11/26
Description: Four kinds of attention on easy and on hard movie reviews.
Accelerator: None
"""

"""
## Introduction

This example trains four small classifiers that differ only in their attention:

- dot product, "V", compares each word with each other word;
- Random, "R", learns a table of weights for each pair of positions;
- Dense, "D", predicts the positions to attend to from each word;
- "R+V" adds R to V, with learned shares that start equal and sum to 1.

The movie reviews are generated. In an *easy* review, most adjectives agree with
the label: "The plot was truly dull". A *hard* review has one good and one bad
adjective and denies one of them: "The plot was not dull but moving". For each
hard review, there is another with the same words and the other label, so a
classifier that counts words is right on half of them.

## Setup
"""

import keras
import matplotlib.pyplot as plt

from keras_synth import datasets, models

VARIANTS = ["V", "R", "D", "R+V"]
EXAMPLES, EPOCHS, SEED = 6_000, 10, 0
SEQUENCE_LENGTH = 64  # word pieces; longer reviews keep their end
BATCH_SIZE = 32
NUM_HEADS, HIDDEN_DIM = 4, 64
LEARNING_RATE = 3e-3
PICTURE = "demo.png"

"""
## Data

Half of the training reviews are hard.
"""

texts, labels = datasets.generated_reviews(EXAMPLES, SEED)
easy = datasets.generated_reviews(1_000, SEED + 1, hard_fraction=0)
hard = datasets.generated_reviews(1_000, SEED + 1, hard_fraction=1)
print(f"An easy review: {easy[0][0]}\nA hard review:  {hard[0][0]}")

tokenizer = models.SynthesizerTokenizer.from_texts(texts, 20_000)
preprocessor = models.SynthesizerTextClassifierPreprocessor(
    tokenizer, SEQUENCE_LENGTH, keep="end"
)
train, easy, hard = (  # tokenized once, not in each epoch
    preprocessor(*reviews) for reviews in ((texts, labels), easy, hard)
)

"""
## Model

The model is one block of a Transformer encoder. The name of a synthesizer
selects its attention. The learning rate warms up and falls to zero.
"""


def build_classifier(synthesizer):
    keras.utils.set_random_seed(SEED)
    backbone = models.SynthesizerBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=1,
        num_heads=NUM_HEADS,
        hidden_dim=HIDDEN_DIM,
        intermediate_dim=4 * HIDDEN_DIM,
        synthesizer=synthesizer,
        dropout=0.0,
        max_sequence_length=SEQUENCE_LENGTH,
    )
    classifier = models.SynthesizerTextClassifier(
        backbone,
        num_classes=2,
        dropout=0.0,
        class_names=["negative", "positive"],
    )
    steps = EPOCHS * (EXAMPLES // BATCH_SIZE)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0,
        steps - steps // 10,
        warmup_target=LEARNING_RATE,
        warmup_steps=steps // 10,
    )
    classifier.compile(
        keras.optimizers.AdamW(schedule),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return classifier


"""
## Training

After each epoch, the classifier is tested on the hard reviews.
"""

results = {}
for name in VARIANTS:
    classifier = build_classifier(name)
    history = classifier.fit(
        *train,
        batch_size=BATCH_SIZE,
        epochs=EPOCHS,
        validation_data=hard,
        verbose=2,
    ).history["val_accuracy"]
    _, accuracy = classifier.evaluate(*easy, verbose=0)
    results[name] = accuracy, history

"""
## Results
"""

figure, axes = plt.subplots()
print("variant  easy reviews  hard reviews")
for name, (accuracy, history) in results.items():
    print(f"{name:7}  {accuracy:12.1%}  {history[-1]:12.1%}")
    axes.plot(range(1, len(history) + 1), history, label=name)
axes.set(xlabel="epoch", ylabel="accuracy on hard reviews")
axes.legend()
figure.savefig(PICTURE)

"""
## Interpretation

All four classify the easy reviews correctly, because most of the adjectives
agree with the label, wherever they are. On the hard reviews, R stays near 50 %,
because a table must learn each pair of positions separately. V compares words
at any positions, and soon learns which adjective "not" denies. In D, words
select positions without seeing the words there, so it learns later and less.
R+V learns as much as V. With other seeds, it ends slightly above or below V.
"""
