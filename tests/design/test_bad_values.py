"""Every bad value of every constructor argument is a ValueError."""

import inspect

import pytest
from public import layer_classes

from keras_synth._backend.configs import parameters_of
from keras_synth.synthesizers import DenseSynthesizer, RandomSynthesizer

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
    "attention_axes": [(), "1", 1.5, True, (1, "2")],
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
KINDS = dict.fromkeys(("initializer", "regularizer", "constraint"), OBJECTS)
for names, values in (
    (
        "block_size bucket_size clusters cross_key_dim cross_num_heads "
        "features ffn_dim global_blocks global_tokens hashes hidden_dim "
        "intermediate_dim iterations kernel key_dim max_distance max_length "
        "max_source_length num_buckets num_heads random_blocks rank "
        "redraw_interval size sliding_window stride value_dim width window "
        "window_blocks",
        COUNTS,
    ),
    ("gain layer_norm_epsilon stddev temperature", POSITIVE),
    ("dropout feed_forward_dropout", RATES),
    (
        "attention_use_bias bidirectional feed_forward_use_bias fixed "
        "needs_float32 normalize_first per_head share_queries shared_heads "
        "softmaxed use_bias use_gate use_gated_activation use_glu",
        FLAGS,
    ),
    ("seed random_seed", SEEDS),
):
    BAD |= dict.fromkeys(names.split(), values)

# Arguments without which a class cannot be made, and those by which an
# argument has a meaning.
NEEDED = {
    "num_heads": 2,
    "key_dim": 4,
    "max_length": 9,
    "hidden_dim": 4,
    "intermediate_dim": 4,
    "synthesizer": "V",
    "window": 2,
    "stride": 2,
    "pattern": "local(window=1)",
}
ALSO_NEEDED = {"BigBirdAttention": {"block_size": 2, "random_blocks": 1}}
# Arguments of a base that the class itself sets.
NOT_OWN = {
    "HeadGroupsSynthesizer": ["num_heads"],
    "LocalAttention": ["pattern"],
    "MixtureSynthesizer": ["num_heads"],
}


CLASSES = layer_classes()


def made(cls, **options):
    needed = {
        name: NEEDED[name]
        for name, parameter in parameters_of(cls).items()
        if parameter.default is inspect.Parameter.empty and name in NEEDED
    }
    if "synthesizers" in parameters_of(cls):
        needed["synthesizers"] = [
            RandomSynthesizer(2, 9),
            DenseSynthesizer(2, 4, 9),
        ]
        needed.pop("num_heads", None)
    needed |= ALSO_NEEDED.get(cls.__name__, {})
    return cls(**needed | options)


def refuses(cls, argument, value):
    try:
        made(cls, **{argument: value})
    except ValueError:
        return True
    return False


@pytest.mark.parametrize("name", CLASSES)
def test_bad_values_of_arguments_are_value_errors(name):
    cls = CLASSES[name]
    made(cls)
    arguments = {*parameters_of(cls)} - {"name", *NOT_OWN.get(name, ())}
    accepted = [
        (argument, value)
        for argument in arguments
        for value in BAD.get(argument) or KINDS[argument.rsplit("_", 1)[-1]]
        if not refuses(cls, argument, value)
    ]
    assert not accepted
