"""Every argument of every class is in its config, and is checked."""

import inspect

import keras
import pytest
from public import layer_classes

from keras_synth import mixers, synthesizers
from keras_synth._backend.configs import (
    parameters_of,
)
from keras_synth.synthesizers import (
    DenseSynthesizer,
    DotProductSynthesizer,
    RandomSynthesizer,
)

pytestmark = pytest.mark.once  # nothing here depends on the backend

# A value of each argument that is not its default, for any class that has it;
# flags are turned over.
VALUES = {
    "activation": "tanh",
    "alphas_initializer": "ones",
    "attention_axes": (1,),
    "block_size": 3,
    "border": "renormalize",
    "bucket_size": 3,
    "clusters": 2,
    "cross_key_dim": 3,
    "cross_num_heads": 1,
    "cross_synthesizer": "additive",
    "decay": 0.5,
    "dropout": 0.25,
    "factors": (2, 6),
    "features": 5,
    "feed_forward_dropout": 0.125,
    "ffn_dim": 6,
    "flash_attention": False,
    "gain": 2.0,
    "global_blocks": 1,
    "global_tokens": 2,
    "hashes": 2,
    "hidden_dim": 6,
    "intermediate_dim": 12,
    "iterations": 3,
    "kernel": 4,
    "key_dim": 6,
    "layer_norm_epsilon": 0.01,
    "long_inputs": "tile",
    "max_distance": 64,
    "max_length": 12,
    "max_source_length": 10,
    "normalization": "rms_normalization",
    "normalizer": "softmax1",
    "num_buckets": 16,
    "num_heads": 4,
    "num_key_value_heads": 2,
    "offsets": (-2, 1),
    "output_shape": 5,
    "pattern": "global(tokens=1)",
    "patterns": ("current", "start"),
    "random_blocks": 1,
    "random_seed": 3,
    "rank": 3,
    "redraw_interval": 10,
    "rotary_max_wavelength": 100.0,
    "rotary_percentage": 0.7,
    "seed": 7,
    "share": "none",
    "size": 5,
    "sliding_window": 3,
    "stddev": 2.0,
    "stride": 2,
    "synthesizer": "V",
    "temperature": 0.5,
    "value_dim": 5,
    "width": 3,
    "window": 3,
    "window_blocks": 1,
}
OF_KINDS = {
    "initializer": keras.initializers.Constant(0.5),
    "regularizer": keras.regularizers.L2(0.5),
    "constraint": keras.constraints.NonNeg(),
}
# Arguments that exclude each other, or that a class sets itself.
LEFT_OUT = {
    "HeadGroupsSynthesizer": ["num_heads", "max_length", "long_inputs"],
    "MixtureSynthesizer": ["num_heads", "max_length", "long_inputs"],
    "SyntheticAttention": ["sliding_window"],
}

# Values that no class may take.
COUNTS = [0, -1, 1.5, "2", True, float("nan")]
POSITIVE = [0, -1.0, "1", float("nan"), float("inf"), True]
RATES = [-0.1, 1.0, "0.1", float("nan"), None]
FLAGS = ["yes", "False", 2, None, 0.5]
SEEDS = [1.5, "1", True]
CHOICES = ["no such name", "", 3]
OBJECTS = ["no such name", 3]
SHAPES = [0, -1, (3, 0), 1.5, "3", True, (True,)]

BAD = {
    "activation": OBJECTS,
    "attention_axes": [(), "1", 1.5, True, (1.0,), (1, "2"), {1}],
    "border": CHOICES,
    "decay": [-0.1, 1.5, "0.5", float("nan")],
    "factors": [(0, 9), (2,), (2, 1), 3, "33", (2.0, 5)],
    "flash_attention": ["yes", 2],
    "long_inputs": CHOICES,
    "normalization": CHOICES,
    "normalizer": CHOICES,
    "offsets": [(), "ab", (1, "a"), (float("nan"),), 3],
    "output_shape": SHAPES,
    "pattern": CHOICES,
    "patterns": [(), ("no such name",), 3],
    "share": CHOICES,
    "synthesizer": [*CHOICES, None, "R+"],
    "cross_synthesizer": [*CHOICES, None, "R+"],
    "synthesizers": [(), ["R"], None, 3],
    "trainable": FLAGS,
}
BAD_KINDS = dict.fromkeys(("initializer", "regularizer", "constraint"), OBJECTS)
for names, values in (
    (
        "block_size bucket_size clusters cross_key_dim cross_num_heads "
        "features ffn_dim global_blocks global_tokens hashes hidden_dim "
        "intermediate_dim iterations kernel key_dim max_distance max_length "
        "max_source_length num_buckets num_heads num_key_value_heads "
        "random_blocks rank redraw_interval size sliding_window stride "
        "value_dim width window window_blocks",
        COUNTS,
    ),
    (
        "gain layer_norm_epsilon rotary_max_wavelength rotary_percentage "
        "stddev temperature",
        POSITIVE,
    ),
    ("dropout feed_forward_dropout", RATES),
    (
        "attention_use_bias bidirectional feed_forward_use_bias fixed "
        "needs_float32 normalize_first per_head rotary share_queries "
        "shared_heads softmaxed use_bias use_gate use_gated_activation use_glu",
        FLAGS,
    ),
    ("seed random_seed", SEEDS),
):
    BAD |= dict.fromkeys(names.split(), values)


CLASSES = layer_classes()


def parts(cls):
    if cls is synthesizers.HeadGroupsSynthesizer:
        return [RandomSynthesizer(1, 9), DotProductSynthesizer(2, 4)]
    return [DotProductSynthesizer(2, 6), DenseSynthesizer(2, 6, 9)]


def changed(cls):
    """Every argument of a class at a value that is not its default."""
    options = {}
    for name, parameter in parameters_of(cls).items():
        kind = OF_KINDS.get(name.rsplit("_", 1)[-1])
        if name in ("name", *LEFT_OUT.get(cls.__name__, ())):
            continue
        value = VALUES.get(name, kind)
        if isinstance(parameter.default, bool):
            value = not parameter.default
        options[name] = parts(cls) if name == "synthesizers" else value
        assert options[name] != parameter.default, name
    if "seed" in options and "synthesizers" in options:
        del options["seed"]  # of the parts
    return options


NESTED = "synthesizer", "synthesizers", "pattern"  # configs have configs
# Errors speak of the unknown name, or are Keras' own.
IDENTIFIERS = *NESTED, "cross_synthesizer", "normalizer", "activation"


def needed(cls, options):
    """The arguments without which a class cannot be made."""
    names = [
        name
        for name, parameter in parameters_of(cls).items()
        if parameter.default is inspect.Parameter.empty
    ]
    return {k: v for k, v in options.items() if k in names}


@pytest.mark.parametrize("name", CLASSES)
def test_a_layer_from_its_config_has_all_arguments(name):
    cls = CLASSES[name]
    options = changed(cls)
    layer = cls(**options, name="mine", dtype="mixed_bfloat16")
    config = layer.get_config()
    assert {*options, "name", "dtype", "trainable"} <= {*config}
    assert cls.from_config(config).get_config() == config
    by_default = cls(**needed(cls, changed(cls))).get_config()
    for argument, value in options.items():
        if argument == "trainable":  # a config has Keras' `trainable`, too
            assert config["learns_slopes"]
        elif argument in needed(cls, options):
            assert argument in NESTED or config[argument] == value, argument
        else:
            assert config[argument] != by_default.get(argument), argument


def refusal(cls, argument, value):
    """The error of a value, or an empty string."""
    options = needed(cls, changed(cls)) | {argument: value}
    try:
        cls(**options)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", CLASSES)
def test_bad_values_of_arguments_are_value_errors(name):
    cls = CLASSES[name]
    of_parts = ["num_heads"] if "synthesizers" in parameters_of(cls) else []
    arguments = {*parameters_of(cls)} - {"name", *of_parts}
    for argument in arguments:
        kind = argument.rsplit("_", 1)[-1]
        for value in BAD.get(argument) or BAD_KINDS[kind]:
            said = refusal(cls, argument, value)
            assert said, (argument, value)
            if argument in BAD and argument not in IDENTIFIERS:
                assert argument in said
                assert "Received" in said


class Scaled(mixers.MultiHeadMixer):
    """Its own argument is an attribute, and it has no `get_config`."""

    def __init__(self, num_heads, key_dim, factor=1.0, **kwargs):
        super().__init__(num_heads, key_dim, **kwargs)
        self._factor = factor


class Forgetful(mixers.MultiHeadMixer):
    def __init__(self, num_heads, key_dim, power=1.0, **kwargs):
        super().__init__(num_heads, key_dim, **kwargs)
        self.exponent = power


def test_an_argument_can_be_a_private_attribute():
    config = Scaled(2, 4, factor=3.0, value_dim=5).get_config()
    assert config["factor"] == 3.0
    assert config["value_dim"] == 5
    assert Scaled.from_config(config).get_config() == config


def test_an_argument_that_is_kept_nowhere_is_an_error():
    with pytest.raises(NotImplementedError, match=r"Set `self.power`"):
        Forgetful(2, 4, power=3.0).get_config()
