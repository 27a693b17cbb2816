"""Names: options, defaults, checks, seeds, and names of your own."""

import dataclasses
import itertools

import keras
import numpy as np
import pytest
from assertions import close, equal
from backend import numpy

import keras_synth
from keras_synth import mixers, synthesizers
from keras_synth.layers import (
    SynthesizerEncoder,
    SyntheticAttention,
)
from keras_synth.synthesizers import (
    DotProductSynthesizer,
    MixtureSynthesizer,
    RandomSynthesizer,
    registry,
)

H, K, D, N, T = 2, 4, 8, 9, 7
serialize = keras.saving.serialize_keras_object


def get(identifier, **options):
    return synthesizers.get(identifier, H, K, N, **options)


def test_the_name_of_a_layer_is_for_the_whole_mixture():
    made = get("R+V", name="mine")
    assert made.name == "mine"
    assert "mine" not in [part.name for part in made.synthesizers]
    assert get("R(name='mine')").name == "mine"


def test_defaults_reach_the_parts_that_have_them():
    defaults = {"rank": 32, "use_bias": False, "dtype": "bfloat16"}
    made = get("FR + FR(rank=4) + D(use_bias=True) + V", defaults=defaults)
    ranked, own, dense, dot = made.synthesizers
    assert (ranked.rank, own.rank) == (32, 4)
    assert dense.use_bias is True
    assert dot.get_config()["use_bias"] is False
    for layer in (made, *made.synthesizers):
        assert layer.compute_dtype == "bfloat16"
    assert get(ranked, defaults=defaults) is ranked
    with pytest.raises(ValueError, match=r"rank.*Received: ranc"):
        get("FR", defaults={"ranc": 4})


# Checking.


@pytest.mark.once
@pytest.mark.parametrize(
    ("identifier", "num_heads", "max_length"),
    [
        ("R(max_length=4)", H, N),
        ("R+V", H, None),
        (3, H, N),
        (lambda: RandomSynthesizer(H, N), H + 1, N),
        (lambda: RandomSynthesizer(H, N), H, N + 1),
        (lambda: get("R+V"), H + 1, N),
        (lambda: DotProductSynthesizer(H, K), H + 1, None),
        (lambda: keras.layers.Dense(3), H, N),
        (lambda: serialize(keras.layers.Dense(3)), H, N),
    ],
)
def test_check_raises_what_get_raises(identifier, num_heads, max_length):
    made = identifier() if callable(identifier) else identifier
    with pytest.raises(ValueError) as raised:
        synthesizers.get(made, num_heads, K, max_length)
    with pytest.raises(ValueError) as checked:
        registry.check(made, num_heads, max_length)
    assert str(checked.value) == str(raised.value)


def test_tables_that_repeat_can_be_shorter_than_sequences():
    identifier = "R(max_length=4, long_inputs='tile')"
    made = get(identifier)
    for one in (identifier, made, serialize(made)):
        registry.check(one, H, N)
        assert get(one).max_length == 4


# Seeds.


def weights_of(synthesizer):
    synthesizer.build((None, T, D))
    return {w.path.split("/", 1)[1]: numpy(w) for w in synthesizer.weights}


@pytest.mark.parametrize(
    "identifier",
    ["R+R+FR+D+FD+V", "V", "D", "FD", "FR", "heads(R=1, FR=1)"],
)
def test_a_seed_makes_initial_values_reproducible(identifier):
    options = {"bias_initializer": "normal"}
    if identifier in ("FR", "heads(R=1, FR=1)"):
        options = {}
    made = get(identifier, seed=7, **options)
    first = list(weights_of(made).values())
    config = serialize(made)
    config.pop("build_config", None)
    same = [
        get(identifier, seed=7, **options),
        keras.saving.deserialize_keras_object(config),
    ]
    for one in same:
        equal([*weights_of(one).values()], first)
    other = list(weights_of(get(identifier, seed=8, **options)).values())
    for a, b in zip(first, other, strict=True):
        assert (a != b).any() or not a.any()  # alphas are zeros
    for a, b in itertools.combinations(first, 2):
        size = min(a.size, b.size)
        assert (a.ravel()[:size] != b.ravel()[:size]).any() or not a.any()


def test_an_initializer_with_a_seed_keeps_it():
    initializer = keras.initializers.RandomNormal(seed=3)
    tables = [
        list(weights_of(get("R", seed=seed, initializer=initializer)).values())
        for seed in (1, 2)
    ]
    equal(*tables)


def test_sums_and_groups_of_objects_have_no_seed():
    with pytest.raises(ValueError, match="each of its parts"):
        MixtureSynthesizer([RandomSynthesizer(H, N)], seed=3)
    with pytest.raises(ValueError, match=r"draws no initial values.*Received"):
        synthesizers.HeadGroupsSynthesizer([RandomSynthesizer(H, N)], seed=3)


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize(
    "name", ["FR", "mlp_mixer(use_bias=False)", "linformer", "compressed"]
)
def test_two_tables_of_a_layer_start_apart(name, seed):
    layer = mixers.get(name, H, K, N, seed=seed)
    layer.build((None, N, D))
    tables = [numpy(w) for w in layer.weights if "kernel/" not in w.path]
    tables = [x for x in tables if x.any()]
    assert len(tables) >= 2
    for one, other in itertools.combinations(tables, 2):
        assert one.shape != other.shape or np.abs(one - other).max() > 0.01


# Names of your own.


class Nearest(synthesizers.GaussianSynthesizer):
    def __init__(self, num_heads, stddev=1.0, **kwargs):
        super().__init__(num_heads, (0,), stddev, **kwargs)


class Identity(mixers.SelfMixer):
    def __init__(self, scale=1.0, **kwargs):
        super().__init__(**kwargs)
        self.scale = scale

    def mix(self, x, padding_mask=None, causal=False, training=None):
        return self.scale * x


@dataclasses.dataclass(frozen=True)
class Before(mixers.patterns.Pattern):
    distance: int

    def allows(self, rows, columns):
        return abs(rows - columns) <= self.distance


class Halved(mixers.normalizers.Softmax):
    name = "halved"

    def weights(self, logits, count=None):
        return super().weights(logits) / 2


def test_your_own_names_work_like_other_names():
    for name, cls in {
        "nearest": Nearest,
        "identity": Identity,
        "before": Before,
        "halved": Halved,
    }.items():
        keras_synth.register(name, cls)
    x = np.ones((1, T, D), "float32")
    layer = SyntheticAttention(
        H,
        K,
        synthesizer="Nearest(stddev=0.5) + V",
        pattern="before(distance=2) | first(tokens=1)",
        normalizer="halved",
    )
    _, scores = layer(x, return_attention_scores=True)
    close(numpy(scores).sum(-1), 0.5, atol=0, rtol=1e-5)
    assert not numpy(scores)[0, 0, 0, 3:].any()
    assert layer.synthesizer.synthesizers[0].stddev == 0.5
    block = SynthesizerEncoder(16, H, synthesizer="identity(scale=2.0)")
    assert block(x).shape == x.shape
    assert block.attention.scale == 2.0
    assert "nearest" in synthesizers.names()
    assert "identity" in mixers.names()
    with pytest.raises(ValueError, match="'nearest'"):
        get("nearst")


@keras.saving.register_keras_serializable(package="tests_registry")
class Warm(synthesizers.DotProductSynthesizer):
    """A built-in synthesizer with one more option."""

    def __init__(self, *args, temperature=1.0, **kwargs):
        super().__init__(*args, **kwargs)
        self.temperature = temperature


def test_a_class_receives_what_its_built_in_base_receives():
    keras_synth.register("warm", Warm)
    layer = SyntheticAttention(
        H,
        K,
        synthesizer="warm(temperature=2.0, rotary=True) + R",
        max_length=N,
        use_bias=False,
        kernel_initializer="zeros",
        num_key_value_heads=1,
    )
    layer.build((None, N, D))
    again = SyntheticAttention.from_config(layer.get_config())
    for made in (layer, again):
        warm = made.synthesizer.synthesizers[0]
        assert warm.temperature == 2.0
        assert warm.rotary
        assert warm.num_key_value_heads == 1
    (kernel,) = layer.synthesizer.synthesizers[0].query.weights  # no bias
    assert not np.any(numpy(kernel))
    with pytest.raises(ValueError, match="Did you mean 'rotary'"):
        get("warm(rotari=True)")


@keras.saving.register_keras_serializable(package="tests_registry")
class Power(keras_synth.mixers.normalizers.Normalizer):
    elementwise = True

    def __init__(self, exponent):
        self.exponent = exponent

    def weights(self, logits, count=None):
        return keras.ops.relu(logits) ** self.exponent

    def get_config(self):
        return {"exponent": self.exponent}


def test_a_normalizer_with_a_required_option_is_saved():
    keras_synth.register("power", Power)
    layer = SyntheticAttention(
        H, K, synthesizer="V", normalizer="power(exponent=3.0)"
    )
    again = SyntheticAttention.from_config(layer.get_config())
    assert len({layer.normalizer, again.normalizer, Power(2.0)}) == 2


@pytest.mark.once
def test_other_names_and_classes_are_errors():
    keras_synth.register("nearest", Identity)
    keras_synth.register("nearest", Nearest)  # your own may be replaced
    assert isinstance(get("nearest"), Nearest)
    assert "nearest" not in mixers.names()
    for name, cls, words in [
        ("random", Nearest, "name of a synthesizer of keras_synth"),
        ("v", Nearest, "name of a synthesizer"),
        ("fnet", Nearest, "name of a mixer"),
        ("additive", Identity, "name of a synthesizer"),
        ("local", Before, "name of a pattern"),
        ("relu", Halved, "name of a normalizer"),
        ("my name", Nearest, "identifier in lower case"),
        ("Mine", Nearest, "identifier in lower case"),
        ("cosineSim", Nearest, "identifier in lower case"),
        ("half_", Nearest, "identifier in lower case"),
        ("lambda", Nearest, "identifier in lower case"),
        (3, Nearest, "identifier in lower case"),
        ("mine", keras.layers.Dense, "derived from one of"),
        ("mine", Nearest(2), "derived from one of"),
    ]:
        with pytest.raises(ValueError, match=words):
            keras_synth.register(name, cls)
    keras_synth.register(
        "random", Halved
    )  # a synthesizer's, but no normalizer's


# Commands.


@pytest.mark.once
def test_variants_of_a_comparison_are_checked():
    from keras_synth.compare.command import check_variant
    from keras_synth.compare.tasks import TASKS

    settings = {"num_heads": 2, "sequence_length": 64, "hidden_dim": 8}
    task = TASKS["pairs"]
    for variant in ("R(max_length=64)", "FR(rank=4)", "FD(factors=(8,8))"):
        check_variant(variant, task, settings)
    for wrong in ("R(max_length=8)", "FR(rank=0)", "linformer(rank=0)"):
        with pytest.raises(ValueError, match="Received"):
            check_variant(wrong, task, settings)


# Other metaclasses.


class Hiding(type(RandomSynthesizer)):
    """As the metaclass of Keras' layers if they are modules of Flax NNX."""

    def __call__(cls, *args, **kwargs):
        return super().__call__(*args, **kwargs)


class Hidden(RandomSynthesizer, metaclass=Hiding):
    def __init__(self, num_heads, max_length, rate=1.0, **kwargs):
        super().__init__(num_heads, max_length, **kwargs)
        self.rate = rate


def test_options_are_found_where_a_metaclass_hides_them():
    keras_synth.register("hidden", Hidden)
    layer = SyntheticAttention(
        H, K, synthesizer="hidden(rate=0.5)", max_length=N
    )
    assert layer.synthesizer.get_config()["rate"] == 0.5
    with pytest.raises(ValueError, match="no option `rat`"):
        get("hidden(rat=1)")
