"""Embeddings train alike on every backend, however often a token occurs."""

import keras
import keras_hub
import numpy as np
import pytest
from assertions import close
from keras import ops

from keras_synth.models.backbones.embeddings import (
    Embedding,
    ReversibleEmbedding,
    SinePositions,
)

LAYERS = [Embedding, ReversibleEmbedding]
IDS = np.array([[0, 0, 0, 1], [1, 2, 0, 0]])


def adam(table, gradients, rate=0.1):
    """A table after steps of Adam (Kingma and Ba, 2015, algorithm 1)."""
    m, v = np.zeros_like(table), np.zeros_like(table)
    for step, gradient in enumerate(gradients, 1):
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient**2
        seen = m / (1 - 0.9**step), v / (1 - 0.999**step)
        table = table - rate * seen[0] / (np.sqrt(seen[1]) + 1e-7)
    return table


@pytest.mark.parametrize("layer", LAYERS)
def test_a_custom_model_with_an_embedding_is_saved(layer, tmp_path):
    inputs = keras.Input((4,), dtype="int32")
    model = keras.Model(inputs, layer(4, 2)(inputs))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    close(loaded.predict(IDS), model.predict(IDS))


@pytest.mark.each_backend
@pytest.mark.parametrize("layer", LAYERS)
def test_adam_sees_the_gradient_of_a_token_as_a_whole(layer):
    embedding = layer(4, 2, embeddings_initializer="ones", name="table")
    inputs = keras.Input((4,), dtype="int32")
    model = keras.Model(inputs, embedding(inputs))
    directions = np.random.default_rng(0).normal(size=(3, 2, 4, 2))
    # The mean is over the batch; the loss of a sample is a sum over the rest.
    model.compile(
        keras.optimizers.Adam(0.1),
        loss=lambda y, x: ops.sum(y * x, axis=(1, 2)),
    )
    slopes = np.zeros((3, 4, 2))
    for slope, direction in zip(slopes, directions, strict=True):
        np.add.at(slope, IDS, direction / 2)
        model.train_on_batch(IDS, direction)
    found = ops.convert_to_numpy(embedding.embeddings)
    wanted = adam(np.ones((4, 2)), slopes)
    close(found, wanted, atol=1e-4)


@pytest.mark.each_backend
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_sinusoids_have_angles_in_float32(dtype):
    """In bfloat16, KerasHub's have equal rows from position 256 on."""
    x, start = ops.zeros((1, 300, 8)), 100
    expected = keras_hub.layers.SinePositionEncoding()(x, start_index=start)
    found = SinePositions(dtype=dtype)(x, start_index=start)
    assert keras.backend.standardize_dtype(found.dtype) == dtype
    atol = 1e-4 if dtype == "float32" else 5e-3
    close(ops.cast(found, "float32"), expected, atol=atol)
