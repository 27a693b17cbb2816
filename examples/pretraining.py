"""
Title: Pretraining and fine-tuning
Author: The keras_synth authors
Date created: 2026/11/22
Last modified: 2026/11/26
Description: Pretrain an encoder on unlabelled texts, then train a classifier.
Accelerator: None
"""

"""
## Introduction

An encoder first learns to predict hidden tokens in texts without labels. As in
BERT's pretraining, 15% of the tokens are hidden. It is then fine-tuned on few
labels, and classifies better than an encoder that starts from random weights.
`keras-synth compare --task masked_lm` pretrains several variants, and `--init`
starts from them.

## Setup
"""

import keras
import keras_hub

from keras_synth import datasets, models, training

DATA = None  # a text file or a folder of them; by default generated reviews
SYNTHESIZER = "R+V"
SEQUENCE_LENGTH, VOCABULARY_SIZE = 64, 8_000
NUM_LAYERS, NUM_HEADS, HIDDEN_DIM = 2, 4, 64
BATCH_SIZE, EPOCHS, LEARNING_RATE = 32, 6, 2e-3
LABELLED, FINE_TUNING_EPOCHS = 1_000, 10
PRESET = "pretrained"

"""
## Texts without labels
"""

if DATA is None:
    lines, _ = datasets.generated_reviews(8_000, seed=2)
else:
    texts = datasets.read(DATA, "text")
    lines = (texts if isinstance(texts, str) else "\n".join(texts)).split("\n")
    lines = [line for line in lines if line.strip()]
held_out = max(1, len(lines) // 50)
tokenizer = models.SynthesizerTokenizer.from_texts(
    lines[held_out:], VOCABULARY_SIZE
)

"""
## Pretraining

The output layer is the embedding. The preprocessor hides tokens.
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
model = models.SynthesizerMaskedLM(
    backbone,
    preprocessor=models.SynthesizerMaskedLMPreprocessor(
        tokenizer, SEQUENCE_LENGTH
    ),
)
steps = EPOCHS * -(-len(lines) // BATCH_SIZE)
model.compile(
    training.adamw(training.InverseSquareRoot(LEARNING_RATE, steps // 10 + 1)),
    loss=training.LabelSmoothedCrossentropy(),
    weighted_metrics=[keras_hub.metrics.Perplexity(from_logits=True)],
)
model.fit(
    lines[held_out:],
    batch_size=BATCH_SIZE,
    epochs=EPOCHS,
    validation_data=lines[:held_out],
    verbose=2,
)
model.save_to_preset(PRESET)
print(model.fill_mask("The plot was [MASK]."))

"""
## Fine-tuning

Train on few reviews with labels, from the pretrained and from random weights.
"""

texts, labels = datasets.generated_reviews(LABELLED, seed=0)
test = datasets.generated_reviews(1_000, seed=1)
preprocessor = models.SynthesizerTextClassifierPreprocessor(
    models.SynthesizerTokenizer.from_preset(PRESET), SEQUENCE_LENGTH
)
pretrained = models.SynthesizerBackbone.from_preset(PRESET)
keras.utils.set_random_seed(0)
random = models.SynthesizerBackbone.from_config(pretrained.get_config())
for name, encoder in {"pretrained": pretrained, "random": random}.items():
    classifier = models.SynthesizerTextClassifier(
        encoder, num_classes=2, preprocessor=preprocessor
    )
    classifier.compile(
        training.adamw(LEARNING_RATE / 2, weight_decay=0.01),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    classifier.fit(
        texts,
        labels,
        batch_size=BATCH_SIZE,
        epochs=FINE_TUNING_EPOCHS,
        verbose=0,
    )
    _, accuracy = classifier.evaluate(*test, verbose=0)
    print(f"{name} weights: accuracy {accuracy:.1%}")

"""
## Interpretation

Half of the generated reviews cannot be classified by counting words, so a bag
of words scores 75%. With 1,000 labelled reviews, an encoder with random weights
fits its training data and stays near this score. An encoder pretrained on 8,000
reviews without labels scores higher.
"""
