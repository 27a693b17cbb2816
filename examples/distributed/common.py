"""Data and model of the examples in this folder.

A classifier with R+V learns whether a word occurs. Data are generated. There is
neither dropout nor shuffling, so that losses do not depend on the number of
devices.
"""

import json
import pathlib

import numpy as np

EXAMPLES, LENGTH, VOCABULARY, BATCH_SIZE = 64, 16, 64, 16


def data():
    """Inputs and labels, NumPy arrays."""
    rng = np.random.default_rng(0)
    ids = rng.integers(1, VOCABULARY, (EXAMPLES, LENGTH)).astype("int32")
    real = np.arange(LENGTH) < rng.integers(8, LENGTH + 1, (EXAMPLES, 1))
    ids = np.where(real, ids, 0)
    labels = (ids < 4).any(axis=1, where=real).astype("int32")
    inputs = {"token_ids": ids, "padding_mask": real.astype("int32")}
    return inputs, labels


def classifier():
    """The model; made anew it has the same weights."""
    import keras

    from keras_synth import models

    keras.utils.set_random_seed(0)
    backbone = models.SynthesizerBackbone(
        vocabulary_size=VOCABULARY,
        num_layers=2,
        num_heads=4,
        hidden_dim=32,
        intermediate_dim=64,
        synthesizer="R + V",
        dropout=0.0,
        max_sequence_length=LENGTH,
    )
    model = models.SynthesizerTextClassifier(
        backbone, num_classes=2, preprocessor=None, dropout=0.0
    )
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[],
    )
    return model


def report(losses, path=None):
    """Prints the loss of each epoch, and writes them into a JSON file."""
    for i, loss in enumerate(losses, start=1):
        print(f"epoch {i}: loss {loss:.6f}", flush=True)
    if path is not None:
        pathlib.Path(path).write_text(json.dumps(losses))
