"""Configs by the signature: what is made again, and what files hold."""

import json
import zipfile

import keras
import pytest
from places import ROOT

from keras_synth import mixers, synthesizers
from keras_synth._backend.configs import parameters_of

FOLDER = ROOT / "tests" / "files" / "version_0_2_0"
# Arguments since then, and what they are by default.
SINCE = {
    "pattern": None,
    "normalizer": "softmax",
    "learns_slopes": False,
    "gain": 1.0,
}
FILES = sorted([*FOLDER.glob("*.keras"), *FOLDER.glob("presets/*/config.json")])


CONTRACTS = ("Mixer", "SelfMixer", "MultiHeadMixer", "Synthesizer")
# In no file, most of them since they are newer.
OTHERS = (
    "AdditiveSynthesizer",
    "CompressedAttention",
    "LocalDenseSynthesizer",
    "PoolingMixer",
    "ReformerAttention",
    "RoutingAttention",
    "SinkhornAttention",
)
OWN = {
    f"keras_synth>{name}"
    for name in (*mixers.__all__, *synthesizers.__all__)
    if name[0].isupper() and name not in (*CONTRACTS, *OTHERS)
}
# Numbers of objects in one file, and an argument that is newer than the files.
LEFT_OUT = ("shared_object_id", "is_steep")


def read(path):
    if path.suffix == ".json":
        return json.loads(path.read_text())
    with zipfile.ZipFile(path) as file:
        return json.loads(file.read("config.json"))


def configs(tree):
    """All configs of mixers and synthesizers in a config."""
    if isinstance(tree, list):
        return [x for part in tree for x in configs(part)]
    if not isinstance(tree, dict):
        return []
    inner = [x for part in tree.values() for x in configs(part)]
    return [tree, *inner] if tree.get("registered_name") in OWN else inner


def plain(config):
    """As JSON has it, without newer arguments that are as by default."""
    if isinstance(config, dict):
        return {
            name: plain(value)
            for name, value in config.items()
            if name not in LEFT_OUT and SINCE.get(name, ...) != value
        }
    if isinstance(config, (list, tuple)):
        return [plain(x) for x in config]
    return config


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_layers_have_the_configs_that_files_hold(path):
    for saved in configs(read(path)):
        layer = keras.saving.deserialize_keras_object(saved)
        assert plain(layer.get_config()) == plain(saved["config"])


def test_files_hold_every_mixer_and_synthesizer():
    saved = configs([read(path) for path in FILES])
    assert {config["registered_name"] for config in saved} == OWN


def test_options_of_bases_are_parameters():
    names = [*parameters_of(mixers.LinformerAttention)]
    assert names[:6] == [
        "num_heads",
        "key_dim",
        "max_length",
        "rank",
        "share",
        "projection_initializer",
    ]
    assert {"value_dim", "dropout", "bias_constraint"} <= {*names}
    assert "kwargs" not in names


class Scaled(mixers.MultiHeadMixer):
    """Its own argument is an attribute, and it has no `get_config`."""

    def __init__(self, num_heads, key_dim, factor=1.0, secret=0, **kwargs):
        super().__init__(num_heads, key_dim, **kwargs)
        self._factor = factor


class Named(Scaled):
    def get_config(self):
        return {**super().get_config(), "factor": "its own"}


def test_arguments_that_are_kept_are_in_the_config():
    config = Scaled(2, 4, factor=3.0, value_dim=5).get_config()
    assert config["factor"] == 3.0
    assert config["value_dim"] == 5
    assert "secret" not in config
    assert Scaled.from_config(config).get_config() == config
    assert Named(2, 4).get_config()["factor"] == "its own"


def test_options_of_projections_are_those_of_the_layer():
    layer = mixers.MultiHeadMixer(
        2, 4, activity_regularizer="l2", kernel_initializer="zeros"
    )
    config = layer.get_config()
    assert config["activity_regularizer"]["class_name"] == "L2"
    assert config["kernel_initializer"]["class_name"] == "Zeros"
    assert config["bias_constraint"] is None
