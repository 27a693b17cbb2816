"""Other versions of a framework may lack its private names."""

import re
import sys
import types

import keras
import numpy as np
import pytest
from backend import numpy, only_on
from places import ROOT

from keras_synth._backend import (
    execution,
    internals,
    kernels,
    tensors,
)
from keras_synth.layers import SynthesizerEncoder, SyntheticAttention

on_torch = only_on("torch", "of its own names")
PACKAGE = ROOT / "keras_synth"
CORE = "_backend attention synthesizers mixers layers folding analysis".split()


def attention(name="R+V"):
    layer = SyntheticAttention(2, 4, synthesizer=name, max_length=8)
    layer.build((None, None, 6))
    return layer


def outputs(layer):
    x = np.random.default_rng(0).normal(size=(2, 5, 6)).astype("float32")
    mask = np.arange(5) < np.array([[5], [3]])
    return numpy(layer(x, value_mask=mask))


@on_torch
@pytest.mark.parametrize(
    "name",
    [
        "_are_functorch_transforms_active",
        "_parse_dispatch_key",
        "_dispatch_tls_is_dispatch_key_included",
    ],
)
def test_attention_runs_without_the_check_of_transforms(name, monkeypatch):
    layer = attention()
    expected = outputs(layer)
    core = {**vars(sys.modules["torch"]._C)}
    del core[name]  # of a copy: PyTorch needs it, too
    torch = types.SimpleNamespace(_C=types.SimpleNamespace(**core))
    monkeypatch.setattr(internals, "TORCH", torch)
    assert not execution.is_transformed()
    np.testing.assert_array_equal(outputs(layer), expected)


@on_torch
def test_a_constant_that_a_cuda_graph_fills_is_not_kept(monkeypatch):
    torch = sys.modules["torch"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    capturing = "is_current_stream_capturing"
    number, like = 0.123, torch.zeros(2)
    monkeypatch.setattr(torch.cuda, capturing, lambda: True)
    recorded = tensors.constant(number, like)
    monkeypatch.setattr(torch.cuda, capturing, lambda: False)
    kept = tensors.constant(number, like)
    assert kept is not recorded
    assert tensors.constant(number, like) is kept


@pytest.mark.each_backend
@pytest.mark.parametrize("lost", ["module", "names", "signature"])
def test_cudnn_is_not_used_without_its_checks(lost, monkeypatch):
    checks = types.ModuleType("checks")
    if lost == "signature":
        checks.check_cudnn_version = lambda: None
        checks.check_compute_capability = lambda: True
        checks.should_export_dbias = lambda: True
        layout = types.SimpleNamespace(BTNH=types.SimpleNamespace(value=0))
        checks.AttentionLayout = layout
    name = "jax._src.cudnn.fused_attention_stablehlo"
    monkeypatch.setitem(sys.modules, name, None if lost == "module" else checks)
    monkeypatch.setattr(execution, "first_platform", lambda: "gpu")
    monkeypatch.setattr(kernels, "JAX", "there")
    assert kernels.widest_cudnn_head("bfloat16") == 0
    x = np.zeros((1, 2, 3, 3))
    assert kernels.has_cudnn_bias_gradient(x, x) is False


@pytest.mark.each_backend
def test_a_built_layer_is_locked_again():
    layer = attention("R").synthesizer
    layer.enable_lora(2)
    with pytest.raises(ValueError, match="already built"):
        layer.add_weight(name="late", shape=(1,))


class Other:
    """A layer of a version without Keras' private names."""

    policy = None

    @property
    def dtype_policy(self):
        return self.policy

    @dtype_policy.setter
    def dtype_policy(self, policy):
        self.policy = policy


@pytest.mark.each_backend
def test_a_layer_of_another_version_needs_no_private_names():
    layer = Other()
    with internals.open_for_state(layer):
        layer.weight = 1
    internals.untrack(layer, "part")
    assert vars(layer) == {"weight": 1}
    internals.set_policy(layer, keras.DTypePolicy("bfloat16"))
    assert layer.dtype_policy.name == "bfloat16"
    assert internals.is_empty(layer)
    assert not internals.is_empty(keras.Variable(1.0))


def batches(error_at):
    for step in range(error_at + 1):
        if step == error_at:
            raise RuntimeError("no more data")
        yield np.ones((2, 3), "float32"), np.ones((2, 1), "float32")


@pytest.mark.each_backend
@only_on("jax", "others keep the weights anyway")
@pytest.mark.parametrize("error_at", [0, 2])
@pytest.mark.parametrize("lost", [False, True])
def test_a_model_keeps_its_weights_when_data_fail(error_at, lost, monkeypatch):
    model = keras.Sequential([keras.layers.Dense(1)])
    model.build((None, 3))
    model.compile("sgd", "mse")
    before = [numpy(x.value) for x in model.weights]
    if lost:
        monkeypatch.setattr(internals, "is_empty", lambda variable: True)
    with (
        pytest.raises(RuntimeError, match="no more data"),
        internals.kept_variables(model),
    ):
        model.fit(batches(error_at), verbose=0)
    after = [numpy(x.value) for x in model.weights]
    moved = any((a != b).any() for a, b in zip(after, before, strict=True))
    assert moved == (error_at > 0)


@pytest.mark.parametrize(
    "name", ["R+V", "heads(V=1, R=1)", "longformer(window=2)"]
)
def test_layers_within_layers_are_those_that_keras_tracks(name):
    block = SynthesizerEncoder(8, 2, synthesizer=name, max_length=8)
    inputs = keras.Input((8, 6))
    inner = keras.Sequential([keras.layers.LSTM(6, return_sequences=True)])
    model = keras.Model(inputs, block(inner(inputs)))
    found = internals.sublayers(model)
    assert len({*map(id, found)}) == len(found)
    expected = {*model._flatten_layers(include_self=False)}
    inputs = {x for x in expected if isinstance(x, keras.layers.InputLayer)}
    assert expected - inputs <= {*found} <= expected
    parts = internals.sublayers(block, recursive=False)
    assert parts == block._flatten_layers(include_self=False, recursive=False)


@pytest.mark.once
def test_only_this_module_of_the_core_uses_private_names():
    defined = re.compile(r"(?:def |class |self\.|cls\.)(_\w+)")
    used = re.compile(r"\._[a-z]\w+")
    paths = [x for name in CORE for x in (PACKAGE / name).rglob("*.py")]
    texts = {x: x.read_text(encoding="utf-8") for x in paths}
    own = {f".{name}" for x in texts.values() for name in defined.findall(x)}
    own |= {"._backend", "._replace", "._asdict"}  # the last are of tuples
    for path, text in texts.items():
        if path.name != "internals.py":
            assert not {*used.findall(text)} - own, path
