"""
Title: One script, three backends, the same numbers
Author: The keras_synth authors
Date created: 2026/11/26
Last modified: 2026/11/26
Description: Train the same model on JAX, TensorFlow and PyTorch, and compare.
Accelerator: None
"""

"""
## Introduction

`keras_synth.compare.run` trains your model in a separate process for each
variant, seed and backend. Runs of one seed have the same batches. Runs of one
variant have the same initial weights on every backend, so that losses differ
only by rounding. Each run imports this script, so the code after the
definitions is below `if __name__ == "__main__":`.

## Model: an ordinary Keras model with one attention layer
"""

import keras
import numpy as np

import keras_synth

LENGTH, VOCABULARY, WIDTH = 32, 50, 32
EXAMPLES, EPOCHS = 2_000, 4
VARIANTS, SEEDS = ["V", "R"], [0]
BACKENDS = ["jax", "tensorflow", "torch"]
FOLDER = "compare_backends"


def build_model(synthesizer):
    tokens = keras.Input((LENGTH,), dtype="int32")
    x = keras.layers.Embedding(VOCABULARY, WIDTH)(tokens)
    x = x + keras_synth.layers.SyntheticAttention(
        num_heads=2, key_dim=16, synthesizer=synthesizer, max_length=LENGTH
    )(x)
    x = keras.layers.GlobalAveragePooling1D()(x)
    model = keras.Model(tokens, keras.layers.Dense(1, "sigmoid")(x))
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    return model


"""
## Data: does token 1 occur in the first half?
"""


def examples(count, seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(1, VOCABULARY, (count, LENGTH)).astype("int32")
    return x, (x[:, : LENGTH // 2] == 1).any(axis=1).astype("int32")


"""
## Training

`run` returns a table of all runs and writes a report to the folder.
"""

if __name__ == "__main__":
    table = keras_synth.compare.run(
        build_model,
        VARIANTS,
        SEEDS,
        BACKENDS,
        train=examples(EXAMPLES, 0),
        validation=examples(500, 1),
        test=examples(500, 2),
        epochs=EPOCHS,
        score="accuracy",
        folder=FOLDER,
    )
    print(table[["variant", "backend", "seed", "score", "loss"]])
