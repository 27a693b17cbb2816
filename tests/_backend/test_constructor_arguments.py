"""Arguments of constructors: in configs, and handed on."""

import inspect

import keras
import pytest

from keras_synth import layers
from keras_synth._backend.configs import arguments_of, config_of, parameters

once = pytest.mark.once


class Base(keras.layers.Layer):
    def __init__(self, units, activation=None, **kwargs):
        super().__init__(**kwargs)
        self.units, self.activation = units, keras.activations.get(activation)

    def get_config(self):
        return config_of(self, Base, super().get_config())


class Derived(Base):
    def __init__(self, units, *, kernel_initializer="zeros", **kwargs):
        self.given = arguments_of(Derived, locals())
        super().__init__(units, **kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def get_config(self):
        config = config_of(self, Derived, super().get_config())
        return {**config, "units": 2 * self.units}


@once
def test_a_config_holds_what_bases_and_the_class_take():
    layer = Derived(3, activation="gelu", name="x")
    config = layer.get_config()
    assert config["activation"] == "gelu"
    assert config["units"] == 6  # a class may write one itself
    assert config["kernel_initializer"]["class_name"] == "Zeros"
    assert {"name", "trainable", "dtype"} < {*config}
    assert layer.given == {"units": 3, "kernel_initializer": "zeros"}
    again = Derived.from_config({**config, "units": 3})
    assert again.get_config() == config


@once
def test_an_argument_without_an_attribute_is_an_error():
    class Forgetful(Base):
        def __init__(self, units, other, **kwargs):
            super().__init__(units, **kwargs)

        def get_config(self):
            return config_of(self, Forgetful, super().get_config())

    with pytest.raises(AttributeError, match="other"):
        Forgetful(1, 2).get_config()


@once
@pytest.mark.parametrize(
    "cls", [layers.SynthesizerEncoder, layers.SynthesizerDecoder]
)
def test_blocks_keep_every_argument(cls):
    sizes = {"intermediate_dim": 4, "num_heads": 2}
    config = cls(**sizes, synthesizer="V", key_dim=3).get_config()
    names = {name for base in cls.__mro__ for name in own(base)}
    assert names < {*config}
    assert cls.from_config(config).get_config() == config


def own(cls):
    ours = cls.__module__.startswith("keras_synth")
    return parameters(cls) if ours and "__init__" in vars(cls) else ()


@once
def test_packed_arguments_are_no_parameters():
    def several(self, a, *args, b=1, **kwargs):
        pass

    cls = type("Any", (), {"__init__": several})
    assert inspect.isfunction(cls.__init__)
    assert parameters(cls) == ("a", "b")
