"""Names: the grammar, options, defaults, seeds, errors, names of your own."""

import dataclasses
import itertools
import random

import keras
import numpy as np
import pytest
from backend import numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import keras_synth
from keras_synth import mixers, synthesizers
from keras_synth.identifiers import Term, read
from keras_synth.layers import (
    SynthesizerDecoder,
    SynthesizerEncoder,
    SyntheticAttention,
)
from keras_synth.registry import registry_of
from keras_synth.synthesizers import (
    DenseSynthesizer,
    DotProductSynthesizer,
    FactorizedDenseSynthesizer,
    FactorizedRandomSynthesizer,
    MixtureSynthesizer,
    RandomSynthesizer,
    registry,
)

H, K, D, N, T = 2, 4, 8, 9, 7


def get(identifier, **options):
    return synthesizers.get(identifier, H, K, N, **options)


def described(synthesizer):
    """What it is, the names of its layers aside."""

    def without_names(x):
        if isinstance(x, dict):
            x = {
                k: v for k, v in x.items() if k not in ("name", "build_config")
            }
            return {k: without_names(v) for k, v in x.items()}
        return [without_names(v) for v in x] if isinstance(x, list) else x

    return without_names(keras.saving.serialize_keras_object(synthesizer))


# The grammar.


@pytest.mark.once
def test_a_string_becomes_a_tree_of_names_options_and_sums():
    first, second = read("FR(rank=32) + V", "")
    assert first == Term("FR", {"rank": 32}, text="FR(rank=32)")
    assert second == Term("V", text="V")
    text = "mixture( linformer(rank=-64)+local (window=(1, 2)), share = None )"
    (term,) = read(text, "")
    assert (term.name, term.options) == ("mixture", {"share": None})
    inner = [(part.name, part.options) for part in term.parts]
    assert inner == [
        ("linformer", {"rank": -64}),
        ("local", {"window": (1, 2)}),
    ]
    assert read(term.text, "") == (term,)


@pytest.mark.once
def test_quoted_text_stays_as_it_is():
    (term,) = read("a-b  c(x='fixed random - \\' #', y=\"d - e\")", "")
    assert term.name == "a_b_c"
    assert term.options == {"x": "fixed random - ' #", "y": "d - e"}


def mixture(*parts, **options):
    return MixtureSynthesizer(parts, **options)


@pytest.mark.once
@pytest.mark.parametrize(
    ("identifier", "expected"),
    [
        (
            "FR(rank=32) + V",
            lambda: mixture(
                FactorizedRandomSynthesizer(H, N, rank=32),
                DotProductSynthesizer(H, K),
            ),
        ),
        (
            "random(long_inputs='tile')",
            lambda: RandomSynthesizer(H, N, long_inputs="tile"),
        ),
        (
            "mixture(dense(shared_heads=True) + V, share_queries=True)",
            lambda: mixture(
                DenseSynthesizer(H, K, N, shared_heads=True),
                DotProductSynthesizer(H, K),
                share_queries=True,
            ),
        ),
        (
            "D(hidden_dim=None) + mixture(Fix, per_head=False)",
            lambda: mixture(
                DenseSynthesizer(H, None, N),
                mixture(RandomSynthesizer(H, N, fixed=True), per_head=False),
            ),
        ),
        (
            "fd(factors=(3, 3), hidden_dim=6, activation='gelu')",
            lambda: FactorizedDenseSynthesizer(
                H, 6, N, factors=(3, 3), activation="gelu"
            ),
        ),
        (
            "R(max_length=4, long_inputs='tile')",
            lambda: RandomSynthesizer(H, 4, long_inputs="tile"),
        ),
        (
            "V(key_dim=3, use_bias=False, kernel_initializer='ones')",
            lambda: DotProductSynthesizer(
                H, 3, use_bias=False, kernel_initializer="ones"
            ),
        ),
        (
            "FR(rank=3, dtype='bfloat16', trainable=False)",
            lambda: FactorizedRandomSynthesizer(
                H, N, rank=3, dtype="bfloat16", trainable=False
            ),
        ),
    ],
)
def test_a_name_with_options_equals_the_object(identifier, expected):
    assert described(get(identifier)) == described(expected())


@pytest.mark.once
@pytest.mark.parametrize(
    "identifier",
    [
        "factorized_random(rank=3)+fixed_random",
        "Factorized-Random( rank = 3 ) + FIXED RANDOM",
        " fr(rank=3,)\n+ fix() ",
    ],
)
def test_case_blanks_and_hyphens_make_no_difference(identifier):
    assert described(get(identifier)) == described(get("FR(rank=3)+Fix"))


@pytest.mark.once
def test_every_public_synthesizer_has_a_name():
    letters = "V D R Fix FD FR R+V additive relative alibi t5_relative"
    letters = f"{letters} gaussian pattern local_dense".split()
    made = {type(get(name)) for name in [*letters, f"heads(V={H})"]}
    public = {getattr(synthesizers, name) for name in synthesizers.__all__}
    functions = {synthesizers.get, synthesizers.names}
    assert made == public - {synthesizers.Synthesizer} - functions


# Keyword options.


@pytest.mark.once
@pytest.mark.parametrize(
    ("identifier", "options", "same"),
    [
        ("FR", {"rank": 4}, "FR(rank=4)"),
        ("R", {"long_inputs": "tile"}, "R(long_inputs='tile')"),
        ("D", {"hidden_dim": None}, "D(hidden_dim=None)"),
        ("FR(rank=4)", {"dtype": "float16"}, "FR(rank=4, dtype='float16')"),
        ("R+V", {"per_head": False}, "mixture(R+V, per_head=False)"),
        ("R+V", {"use_bias": False}, "mixture(R+V(use_bias=False))"),
        (
            "mixture(D+V, share_queries=True)",
            {"kernel_initializer": "ones"},
            "mixture(D(kernel_initializer='ones')"
            "+V(kernel_initializer='ones'), share_queries=True)",
        ),
        (
            "R + V(dtype='float16')",
            {"dtype": "bfloat16"},
            "mixture(R(dtype='bfloat16') + V(dtype='float16'), "
            "dtype='bfloat16')",
        ),
    ],
)
def test_keyword_options_equal_those_in_brackets(identifier, options, same):
    assert described(get(identifier, **options)) == described(get(same))


def test_a_name_of_a_layer_is_the_whole_ones():
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


# Errors.


@pytest.mark.once
@pytest.mark.parametrize(
    ("identifier", "options", "words"),
    [
        ("Q", {}, "Unknown synthesizer 'Q'.*\"R\""),
        ("", {}, 'Cannot read.*"R"'),
        ("R+", {}, 'Cannot read.*"R"'),
        ("FR(ranks=3)", {}, "no option `ranks`.*'rank'.*long_inputs.*FR"),
        ("FR", {"foo": 1}, "no option `foo`.*rank.*long_inputs"),
        ("R", {"kernel_initializer": "ones"}, "no option `kernel_init"),
        ("R+Fix", {"kernel_initializer": "ones"}, "no option `kernel_init"),
        ("Fix(fixed=False)", {}, "no option `fixed`"),
        ("V(num_heads=3)", {}, "no option `num_heads`"),
        ("mixture(R, synthesizers=[])", {}, "no option `synthesizers`"),
        ("FR+V", {"rank": 3}, r"of a part.*FR\(rank=32\) \+ V"),
        ("mixture(FR+V, rank=3)", {}, "of a part"),
        ("FR+V", {"foo": 3}, "no option `foo`.*per_head"),
        ("FR(rank=4)", {"rank": 4}, "not both"),
        ("FR(dtype='float16')", {"dtype": "float16"}, "not both"),
        ("mixture(R, per_head=False)", {"per_head": False}, "not both"),
        ("FR(rank=0)", {}, "`rank` must be a positive"),
        ("FR(rank=4, rank=4)", {}, "'rank' twice"),
        ("FR(32)", {}, r'as in "FR\(rank=32\)"'),
        ("V + D(8)", {}, r'as in "D\(hidden_dim=8\)"'),
        ("FR(R, V)", {}, r'2 values without a name.*"FR\(R \+ V\)"'),
        ("mixture(R, D)", {}, r'"mixture\(R \+ D\)"'),
        ("R,V", {}, r'write "R \+ V"'),
        ("FR(rank=size)", {}, "rank=size` is not a literal"),
        ("R(long_inputs=tile)", {}, "not a literal.*strings in quotes"),
        ("FR(rank=8**2)", {}, "not a literal"),
        ("FR(**{'rank': 8})", {}, r"'\*\*'"),
        ("FR(rank=8", {}, "never closed"),
        ("FR # rank", {}, "'#'"),
        ("R + (D + V)", {}, "is not a name"),
        ("None", {}, "is not a name"),
        ("R.V", {}, "is not a name"),
        ("random-ish", {}, "Unknown synthesizer 'random_ish'.*'random'"),
        ("R(D + V)", {}, 'Only "mixture" and "heads"'),
        ("mixture", {}, "both need them"),
        ("mixture(per_head=False)", {}, "both need them"),
        ("2 * V", {}, "inside of heads.*Received: 2 for"),
        ("heads(V=1)", {}, "must add up.*num_heads=2, 1 heads"),
        ("heads(V=True, R=1)", {}, "Each group.*Received: True for"),
        ("heads(V + 2 * R)", {}, "Each group.*Received: None for"),
        ("R(max_length=4)", {}, "has its own.*max_length=9.*=4"),
        ("R(max_length=None)", {}, "`max_length` must be"),
        ("R(seed='a')", {}, "`seed` must be an integer"),
        ("R+V", {"seed": 1.5}, "`seed` must be an integer"),
        ("R(name='a/b')", {}, "name"),
    ],
)
def test_errors_list_what_there_is(identifier, options, words):
    with pytest.raises(ValueError, match=f"(?s){words}"):
        get(identifier, **options)


@pytest.mark.once
@pytest.mark.parametrize("name", ["num_heads", "key_dim", "max_length"])
def test_what_is_missing_may_stand_in_brackets(name):
    given = {"num_heads": H, "key_dim": K, "max_length": N}
    del given[name]
    with pytest.raises(ValueError, match=f"needs `{name}`"):
        synthesizers.get("R + D", **given)
    inside = {
        "key_dim": "R + D(hidden_dim=4)",
        "max_length": "R(max_length=9) + D(max_length=9)",
    }
    if name in inside:
        made = synthesizers.get(inside[name], **given)
        assert described(made) == described(get("R + D"))


@pytest.mark.once
@pytest.mark.parametrize("as_config", [False, True])
def test_options_beside_an_object_or_a_config_are_errors(as_config):
    made = get("R")
    if as_config:
        made = keras.saving.serialize_keras_object(made)
    with pytest.raises(ValueError, match=r"Options are for names.*'rank': 4"):
        get(made, rank=4)
    with pytest.raises(ValueError, match="heads"):
        synthesizers.get(made, H + 1)
    with pytest.raises(ValueError, match="has its own"):
        synthesizers.get(made, H, K, N + 1)


@pytest.mark.parametrize("letter", ["R", "D", "FR", "FD", "R+V"])
def test_the_way_out_of_a_too_long_input_works(letter):
    x = np.ones((1, N + 1, D), "float32")
    layer = SyntheticAttention(H, K, synthesizer=letter, max_length=N)
    tiled = letter.replace("+V", "") + "(long_inputs='tile')"
    with pytest.raises(ValueError, match=r'synthesizer="R\(long_inputs='):
        layer(x)
    layer = SyntheticAttention(H, K, synthesizer=tiled, max_length=N)
    assert layer(x).shape == x.shape


@pytest.mark.once
@pytest.mark.parametrize(
    ("identifier", "ways_out"),
    [
        (
            "local(window=64)",
            [
                'synthesizer="V", pattern="local(window=64)"',
                'models accept synthesizer="local(window=64)"',
                'keras_synth.mixers.get("local(window=64)"',
            ],
        ),
        (
            "local(R, window=4)",
            [
                'synthesizer="R", pattern="local(window=4)"',
                'keras_synth.mixers.get("local(R, window=4)"',
            ],
        ),
        ("linear", ['keras_synth.mixers.get("linear"']),
        ("light_conv(width=3)", ['mixers.get("light_conv(width=3)"']),
        ("fnet", ['models accept synthesizer="fnet"']),
        ("R + fnet", ["cannot be part of a sum"]),
    ],
)
def test_the_error_for_a_mixer_names_the_pattern_or_block(identifier, ways_out):
    for make in (
        get,
        lambda x: SyntheticAttention(H, K, synthesizer=x, max_length=N),
    ):
        with pytest.raises(ValueError, match="is a mixer, not a syn") as error:
            make(identifier)
        for words in ways_out:
            assert words in str(error.value)


@pytest.mark.once
def test_a_list_of_names_is_answered_with_their_sum():
    for make in (
        get,
        lambda x: SyntheticAttention(H, K, synthesizer=x, max_length=N),
        lambda x: SynthesizerEncoder(8, H, synthesizer=x, max_length=N),
    ):
        with pytest.raises(ValueError, match=r'write "R \+ V"'):
            make(["R", "V"])


# No string makes anything but a synthesizer or a ValueError.

LETTERS = "V D R Fix FD FR mixture Q fixed-random".split()
OPTIONS = (
    "rank seed dtype name key_dim hidden_dim long_inputs initializer factors "
    "max_length shared_heads share_queries use_bias kernel_initializer foo"
).split()
LITERALS = (
    "0 -1 7 1.5 1e999 1j True None '' 'x' 'relu' 'tile' b'x' () (1,2) [] [1] "
    "{} {1} {[]} {'class_name':'x'} {'class_name':'Zeros','config':{}} ..."
).split()
NOISE = [
    *"( ) (( + - = , : . # [] lambda if * ** \" ' é ;".split(),
    *("\n", " ", "\0", "\\", "\ud800"),
]


@st.composite
def almost_names(draw):
    """Sums with options, some of them with something in the wrong place."""

    def one_of(words):
        return draw(st.sampled_from(words))

    def sum_of_terms(depth=0):
        terms = []
        for _ in range(draw(st.integers(1, 3))):
            inside = []
            if depth < 2 and draw(st.integers(0, 3)) == 0:
                inside.append(sum_of_terms(depth + 1))
            for _ in range(draw(st.integers(0, 2))):
                inside.append(f"{one_of(OPTIONS)}={one_of(LITERALS)}")
            brackets = f"({', '.join(inside)})" if inside else ""
            terms.append(one_of(LETTERS) + brackets)
        return " + ".join(terms)

    text = sum_of_terms()
    if draw(st.booleans()):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + one_of(NOISE) + text[at:]
    return text


@pytest.mark.once
@settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.one_of(almost_names(), almost_names(), st.text(max_size=30)))
def test_any_string_is_a_synthesizer_or_a_value_error(identifier):
    errors = []
    for function in (
        lambda: registry.check(identifier, H, N),
        lambda: get(identifier),
    ):
        try:
            made = function()
            errors.append(None)
        except ValueError as error:
            errors.append(str(error))
    if errors[1] is None:
        assert isinstance(made, synthesizers.Synthesizer)
    # `check` knows all but the values of options.
    assert errors[0] in (None, errors[1])


@pytest.mark.once
@pytest.mark.parametrize("name", ["V", "D", "Fix", "R", "FD", "FR", "mixture"])
def test_any_value_of_an_option_is_taken_or_a_value_error(name):
    """Of the right type or not."""
    known = registry.SYNTHESIZERS
    options = known.options(known.find(name))
    inner = "D + V, " if name == "mixture" else ""
    taken = set()
    for option, literal in itertools.product(options, LITERALS):
        identifier = f"{name}({inner}{option}={literal})"
        try:
            synthesizer = synthesizers.get(identifier, H, K)
        except ValueError:
            try:
                synthesizer = synthesizers.get(identifier, H, K, N)
            except ValueError:
                continue
        assert isinstance(synthesizer, synthesizers.Synthesizer)
        taken.add(option)
    assert taken == set(options)


@pytest.mark.once
def test_endless_strings_are_value_errors():
    for identifier in (
        "R+" * 5000 + "R",
        "mixture(" * 300 + "R" + ")" * 300,
        f"FR(rank={'9' * 5000})",
    ):
        with pytest.raises(ValueError, match="Cannot read"):
            get(identifier)


# Checking.


def test_checking_makes_no_layer_and_draws_no_seed(monkeypatch):
    made = get("R+V")
    config = keras.saving.serialize_keras_object(made)
    uids = ["dense_synthesizer", "mixture_synthesizer", "einsum_dense"]
    before = [keras.backend.get_uid(name) for name in uids]
    state = random.getstate()

    def no_layer(*args, **kwargs):
        raise AssertionError("a layer was made")

    monkeypatch.setattr(keras.layers.Layer, "__init__", no_layer)
    for identifier in ("FR(rank=3) + V", "mixture(D + V)", "Fix", made, config):
        registry.check(identifier, H, N)
    registry.check("V", H)
    with pytest.raises(ValueError, match="a layer was made"):
        get("R")
    assert random.getstate() == state
    assert [keras.backend.get_uid(name) for name in uids] == [
        count + 1 for count in before
    ]


@pytest.mark.once
@pytest.mark.parametrize(
    ("identifier", "num_heads", "max_length"),
    [
        ("Q", H, N),
        ("R+", H, N),
        ("R(foo=3)", H, N),
        ("R(max_length=4)", H, N),
        ("R", None, N),
        ("R+V", H, None),
        (3, H, N),
        (None, H, N),
        (lambda: RandomSynthesizer(H, N), H + 1, N),
        (lambda: RandomSynthesizer(H, N), H, N + 1),
        (lambda: get("R+V"), H + 1, N),
        (lambda: DotProductSynthesizer(H, K), H + 1, None),
        (lambda: keras.layers.Dense(3), H, N),
    ],
)
def test_check_raises_what_get_raises(identifier, num_heads, max_length):
    made = identifier() if callable(identifier) else identifier
    with pytest.raises(ValueError) as raised:
        synthesizers.get(made, num_heads, K, max_length)
    with pytest.raises(ValueError) as checked:
        registry.check(made, num_heads, max_length)
    assert str(checked.value) == str(raised.value)


@pytest.mark.once
def test_a_config_that_does_not_fit_is_refused():
    config = keras.saving.serialize_keras_object(get("R+V"))
    dense = keras.saving.serialize_keras_object(keras.layers.Dense(3))
    for wrong, heads in [(config, H + 1), (dense, H), ({"a": 1}, H)]:
        with pytest.raises(ValueError, match="Received"):
            synthesizers.get(wrong, heads, K, N)
        with pytest.raises(ValueError, match="Received"):
            SynthesizerEncoder(
                8, heads, synthesizer=wrong, max_length=N, key_dim=K
            ).build((None, T, D))


def test_tables_that_repeat_may_be_shorter_than_the_layers_sequences():
    identifier = "R(max_length=4, long_inputs='tile')"
    made = get(identifier)
    for one in (identifier, made, keras.saving.serialize_keras_object(made)):
        registry.check(one, H, N)
        assert get(one).max_length == 4


# Within layers.


@pytest.mark.parametrize(
    "layer_class", [SynthesizerEncoder, SynthesizerDecoder]
)
def test_blocks_read_options_and_keep_them_in_their_config(layer_class):
    layer = layer_class(
        16, H, synthesizer="FR(rank=3)+V", max_length=N, dtype="bfloat16"
    )
    again = layer_class.from_config(layer.get_config())
    again(np.ones((1, T, D), "float32"))
    table, dot = again.attention.synthesizer.synthesizers
    assert table.rank == 3
    assert dot.compute_dtype == "bfloat16"


def test_attention_keeps_options_in_its_config():
    layer = SyntheticAttention(
        H,
        K,
        synthesizer="FR(rank=3) + V(kernel_initializer='ones')",
        max_length=N,
        use_bias=False,
        kernel_initializer="zeros",
    )
    for one in (layer, SyntheticAttention.from_config(layer.get_config())):
        one.build((None, T, D))
        table, dot = one.synthesizer.synthesizers
        assert table.R1.shape == (H, N, 3)
        assert [w.name for w in dot.weights] == ["kernel", "kernel"]
        assert (numpy(dot.query.kernel) == 1).all()
        assert (numpy(one.value.kernel) == 0).all()


# Seeds.


def weights_of(synthesizer):
    synthesizer.build((None, T, D))
    return {w.path.split("/", 1)[1]: numpy(w) for w in synthesizer.weights}


@pytest.mark.parametrize("identifier", ["R+R+FR+D+FD+V", "V", "D", "FD", "FR"])
def test_a_seed_makes_initial_values_reproducible(identifier):
    options = {"bias_initializer": "normal"}
    if identifier == "FR":
        options = {}
    made = get(identifier, seed=7, **options)
    first = list(weights_of(made).values())
    config = keras.saving.serialize_keras_object(made)
    config.pop("build_config", None)
    same = [
        get(identifier, seed=7, **options),
        keras.saving.deserialize_keras_object(config),
    ]
    for one in same:
        again = list(weights_of(one).values())
        assert len(again) == len(first)
        for a, b in zip(first, again, strict=True):
            np.testing.assert_array_equal(a, b)
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
    np.testing.assert_array_equal(*tables)


def test_a_mixture_of_objects_refuses_a_seed():
    with pytest.raises(ValueError, match="each of its parts"):
        MixtureSynthesizer([RandomSynthesizer(H, N)], seed=3)


# Names of your own.


@pytest.fixture
def no_new_names():
    kinds = [registry_of(x) for x in ("synthesizer", "mixer", "pattern")]
    kinds.append(registry_of("normalizer"))
    before = [dict(kind.entries) for kind in kinds]
    yield
    for kind, entries in zip(kinds, before, strict=True):
        kind.entries = entries


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
    has_pieces = False

    def allows(self, rows, columns):
        return abs(rows - columns) <= self.distance


class Halved(mixers.normalizers.Softmax):
    name = "halved"

    def weights(self, logits, count=None):
        return super().weights(logits) / 2


@pytest.mark.usefixtures("no_new_names")
def test_names_of_your_own_work_wherever_names_do():
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
    np.testing.assert_allclose(numpy(scores).sum(-1), 0.5, rtol=1e-5)
    assert not numpy(scores)[0, 0, 0, 3:].any()
    assert layer.synthesizer.synthesizers[0].stddev == 0.5
    block = SynthesizerEncoder(16, H, synthesizer="identity(scale=2.0)")
    assert block(x).shape == x.shape
    assert block.attention.scale == 2.0
    assert "nearest" in synthesizers.names()
    assert "identity" in mixers.names()
    with pytest.raises(ValueError, match="'nearest'"):
        get("nearst")


@pytest.mark.once
@pytest.mark.usefixtures("no_new_names")
def test_what_cannot_be_registered_is_refused():
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
def test_the_rank_of_the_comparison_is_for_all_that_do_not_say_theirs():
    from keras_synth.compare import grid

    def rank(variant):
        return grid.synthesizer(variant, H, K, N, rank=32).rank

    assert rank("factorized-random") == rank("FR") == 32
    assert rank("FR(rank=4)") == 4
    made = grid.synthesizer("FR + FR(rank=4) + V", H, K, N, rank=32)
    assert [part.rank for part in made.synthesizers[:2]] == [32, 4]


@pytest.mark.once
def test_variants_of_the_comparison_are_checked_as_they_will_be_made():
    from keras_synth.compare import grid

    settings = grid.Settings("pairs", sequence_length=64, hidden_dim=8)
    variants = ["R(max_length=64)", "FR(rank=4)", "FD(factors=(8,8))"]
    runs = grid.runs(variants, [1, 2], [0], ["jax"], settings)
    assert [run.variant for run in runs[::2]] == variants
    for wrong in ("R(max_length=8)", "FD(factors=(2,4))", "FR(rank=0)"):
        with pytest.raises(ValueError, match="Received"):
            grid.runs([wrong], [2], [0], ["jax"], settings)
