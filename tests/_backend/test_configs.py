"""Configs by the signature."""

from keras_synth import mixers
from keras_synth._backend.configs import parameters_of


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
