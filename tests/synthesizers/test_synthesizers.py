"""The results of synthesizers: keys, factors, tables."""

import inspect
import json
import zipfile

import keras
import numpy as np
import pytest
import reference
from arrays import normal
from assertions import close
from backend import numpy
from cases import D, H, K, N, T

from keras_synth.layers import SyntheticAttention
from keras_synth.synthesizers import get


def test_the_factors_of_factorized_dense_are_near_the_root():
    for length in range(1, 40):
        synthesizer = get("FD", num_heads=H, key_dim=4, max_length=length)
        synthesizer.build((None, None, D))
        found = synthesizer.A.shape[-1], synthesizer.B.shape[-1]
        assert found == reference.default_factors(length)


def test_attention_has_the_arguments_of_multi_head_attention():
    mine = inspect.signature(SyntheticAttention.call).parameters
    theirs = inspect.signature(keras.layers.MultiHeadAttention.call).parameters
    assert set(theirs) <= set(mine)


# --- the gain of learned tables: how far a step moves their logits -----------

LONGEST, ROWS = 40, slice(30)


def made(name, **options):
    synthesizer = get(name, num_heads=H, max_length=LONGEST, **options)
    synthesizer.build((None, None, 8))
    return synthesizer


def logits(synthesizer, length=30):
    query = np.zeros((1, length, 8), "float32")
    return numpy(synthesizer(query, length=length).materialize())


@pytest.mark.parametrize("name", ["R", "FR"])
def test_logits_are_the_table_times_the_gain(name):
    plain, strong = made(name), made(name, gain=10)
    strong.set_weights(plain.get_weights())
    close(logits(strong), 10 * logits(plain), rtol=1e-5, atol=1e-6)
    table = numpy(strong.tables()["R"])
    close(table[:, ROWS, ROWS], logits(strong)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["R", "FR"])
@pytest.mark.parametrize("gain", [1, 10])
def test_the_start_is_the_same_whatever_the_gain(name, gain):
    start = logits(made(name, gain=gain, seed=0), LONGEST)
    assert start.std() == pytest.approx(0.1, rel=0.15)


def test_the_update_of_lora_also_has_the_gain():
    synthesizer = made("R", gain=10)
    start = logits(synthesizer)
    synthesizer.enable_lora(2)
    close(logits(synthesizer), start, atol=0, rtol=1e-6)
    synthesizer.lora_R_b.assign(normal(H, 2, LONGEST))
    added = numpy(synthesizer.lora_R_a) @ normal(H, 2, LONGEST)
    close(
        logits(synthesizer)[0] - start[0],
        10 * added[:, ROWS, ROWS],
        rtol=1e-4,
        atol=1e-4,
    )


def test_a_map_of_policies_comes_back_for_projections(tmp_path):
    policies = keras.dtype_policies.DTypePolicyMap(
        "float32", {".*query": keras.dtype_policies.DTypePolicy("bfloat16")}
    )
    x = keras.Input((T, D))
    layer = SyntheticAttention(
        H, K, synthesizer="R+V", max_length=N, dtype=policies
    )
    model = keras.Model(x, layer(x))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    found, expected = (
        [w.dtype for w in each.weights] for each in (loaded, model)
    )
    assert found == expected
    assert "bfloat16" in expected
    given = normal(2, T, D)
    close(loaded(given), model(given), atol=1e-6)


def test_a_file_omits_the_dtype_that_the_layer_gives(tmp_path):
    given = get("V", H, K, N, dtype="mixed_bfloat16")
    x = keras.Input((T, D))
    layer = SyntheticAttention(H, K, synthesizer=given, dtype="mixed_bfloat16")
    keras.Model(x, layer(x)).save(tmp_path / "model.keras")
    with zipfile.ZipFile(tmp_path / "model.keras") as file:
        config = json.loads(file.read("config.json"))
    (found,) = (
        x["config"]["synthesizer"]
        for x in config["config"]["layers"]
        if "synthesizer" in x["config"]
    )
    assert "dtype" not in found["config"]
