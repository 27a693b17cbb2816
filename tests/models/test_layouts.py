"""Layout maps: which weights are cut between devices, and how."""

import re

import keras
import pytest
from backend import only_on
from layout_cases import BACKBONES, HEADS, backbone, is_replicated
from scripts import run_helper

import keras_synth
from keras_synth import mixers, models, synthesizers
from keras_synth.models import layouts


class Distribution(keras.distribution.ModelParallel):
    """On a mesh of devices that need not be there, set for all that asks."""

    def __init__(self, shape=(2, 4), layout_map=None):
        count = shape[0] * shape[1]
        self.mesh = keras.distribution.DeviceMesh(
            shape, ("batch", "model"), [f"cpu:{i}" for i in range(count)]
        )
        layout_map = layout_map or models.SynthesizerBackbone.get_layout_map(
            self.mesh
        )
        super().__init__(layout_map=layout_map, batch_dim_name="batch")


def matching(path):
    return [key for key in layouts.sharded() if re.fullmatch(key, path)]


@pytest.mark.parametrize("name", BACKBONES)
def test_every_matrix_is_sharded_or_named_as_replicated(name):
    model = backbone(name)
    for weight in model.weights:
        found = matching(weight.path)
        ways = len(found) + is_replicated(weight.path)
        assert ways <= 1, (weight.path, found)
        assert ways or len(weight.shape) < 2, weight.path
        if found and "attention" in weight.path:
            axes = layouts.sharded()[found[0]]
            assert len(axes) <= len(weight.shape)
            cut = weight.shape[axes.index(layouts.MODEL)]
            assert cut % HEADS == 0 or cut == 1, weight.path


@pytest.mark.parametrize("name", ["R", "R + V"])
def test_folded_tables_are_cut_by_heads(name):
    folded = keras_synth.fold(backbone(name))
    tables = [w.path for w in folded.weights if w.path.endswith("/table")]
    assert tables
    for path in tables:
        (key,) = matching(path)
        assert layouts.sharded()[key] == ("model",)


def test_tables_are_cut_by_heads():
    attention = "encoder_layer_0/self_attention"
    for name, axes in {
        "synthesizer/R": ("model", None, None),
        "synthesizer/part_1/R2": ("model", None, None),
        "synthesizer/part_0/part_1/W2": (None, "model", None),
        "synthesizer/query/kernel": (None, "model", None),
        "attention_output/kernel": ("model", None, None),
    }.items():
        (key,) = matching(f"{attention}/{name}")
        layout = layouts.sharded()[key] + (None,) * 3
        found = [a if a == layouts.MODEL else None for a in layout[:3]]
        assert tuple(found) == axes


def test_your_own_class_declares_the_cuts_of_its_weights():
    layout_map = models.SynthesizerBackbone.get_layout_map(Distribution().mesh)
    (path,) = (
        weight.path
        for weight in backbone("a user's own").weights
        if weight.name == "nearness"
    )
    assert layout_map[path].axes == (None, "model")
    assert layout_map["encoder_layer_0/self_attention/nearness"] is None


def test_your_own_mixer_declares_the_cuts_of_its_weights():
    class Scaled(mixers.SelfMixer):
        weight_axes = {"own/scales": ("data", "model")}

    path = "encoder_layer_3/self_attention/{}own/scales"
    found = models.SynthesizerBackbone.get_layout_map(Distribution().mesh)
    assert found[path.format("")].axes == ("batch", "model")
    assert found[path.format("synthesizer/")] is None
    del Scaled  # until here


def test_of_a_class_that_is_defined_twice_the_last_counts():
    def define(axes):
        class Cell(synthesizers.Synthesizer):
            weight_axes = {"of_a_notebook": axes}

        return Cell

    classes = [define(axes) for axes in ((None, "model"), ("model",))]
    (found,) = (
        axes
        for path, axes in layouts.sharded().items()
        if path.endswith("/of_a_notebook")
    )
    assert found == classes[1].weight_axes["of_a_notebook"]


@pytest.mark.parametrize(
    "axes, error",
    [
        (("heads",), r"`weight_axes` of Random.* 'model', 'data' and None"),
        ("model", "must be tuples of .*Received: 'W2': 'model'"),
        (("model",), r"'W2' of (Random|Dense).*another name.*Received"),
    ],
)
def test_axes_that_cannot_be_are_errors(monkeypatch, axes, error):
    declared = synthesizers.RandomSynthesizer.weight_axes
    monkeypatch.setitem(declared, "W2", axes)
    with pytest.raises(ValueError, match=error):
        models.SynthesizerBackbone.get_layout_map(Distribution().mesh)


def test_get_layout_map_speaks_of_the_axes_of_the_mesh():
    cls = models.SynthesizerSeq2SeqBackbone
    mesh = keras.distribution.DeviceMesh((1, 2), ("x", "y"), ["a:0", "a:1"])
    layout_map = cls.get_layout_map(mesh, "y", "x")
    layout = layout_map["token_embedding/embeddings"]
    assert layout.axes == ("y", "x")
    assert layout.device_mesh is mesh
    with pytest.raises(ValueError, match="Invalid axis names"):  # of Keras
        cls.get_layout_map(mesh, "y")
    with pytest.raises(ValueError, match="different axes"):
        cls.get_layout_map(mesh, "y", "y")


def looks_for_devices():
    """Whether Keras asks the backend for the devices of a mesh."""
    version = tuple(map(int, keras.__version__.split(".")[:2]))
    return {"jax": True, "torch": version >= (3, 16)}.get(
        keras.backend.backend(), False
    )


@pytest.mark.each_backend
@pytest.mark.skipif(
    keras.backend.backend() == "jax", reason="there are no such devices"
)
def test_a_layout_map_that_matches_nothing_is_an_error():
    nothing = keras.distribution.LayoutMap(Distribution().mesh)
    nothing["embeddings"] = ("model",)  # no whole path
    with (
        Distribution(layout_map=nothing).scope(),
        pytest.raises(ValueError, match=r"matches no weight.*get_layout_map"),
    ):
        backbone("R")


@pytest.mark.each_backend
@pytest.mark.skipif(looks_for_devices(), reason="there are no such devices")
def test_our_layout_map_is_not_found():
    with Distribution().scope():
        backbone("R")


@only_on("jax", "Keras distributes there")
@pytest.mark.slow
@pytest.mark.parametrize(
    "what", ["errors", "weights", "losses", "gathers", "files"]
)
def test_on_eight_devices(what):
    flags = "--xla_force_host_platform_device_count=8"
    flags += " --xla_backend_optimization_level=0"
    run_helper("sharded.py", what, XLA_FLAGS=flags, JAX_PLATFORMS="cpu")
