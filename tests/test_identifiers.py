"""Names of synthesizers: the grammar, and errors."""

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_synth import mixers, synthesizers
from keras_synth.identifiers import read
from keras_synth.layers import SyntheticAttention
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
serialize = keras.saving.serialize_keras_object


def get(identifier, **options):
    return synthesizers.get(identifier, H, K, N, **options)


# The grammar.


@pytest.mark.once
def test_quoted_text_stays_as_it_is():
    (term,) = read("a-b  c(x='fixed random - \\' #', y=\"d - e\")", "")
    assert (term.name, read(term.text, "")) == ("a_b_c", (term,))
    assert term.options == {"x": "fixed random - ' #", "y": "d - e"}


def described(x):
    """A synthesizer or its config, without the names of layers."""
    if isinstance(x, keras.layers.Layer):
        x = serialize(x)
    if isinstance(x, dict):
        left = {*x} - {"name", "build_config"}
        return {k: described(x[k]) for k in left}
    return [*map(described, x)] if isinstance(x, list) else x


R, V = RandomSynthesizer, DotProductSynthesizer
SAME = [
    # a name with options, and the object
    (
        get("FR(rank=3) + V"),
        MixtureSynthesizer(
            [FactorizedRandomSynthesizer(H, N, rank=3), V(H, K)]
        ),
    ),
    (
        get("mixture(dense(shared_heads=True) + V, share_queries=True)"),
        MixtureSynthesizer(
            [DenseSynthesizer(H, K, N, shared_heads=True), V(H, K)],
            share_queries=True,
        ),
    ),
    (
        get("D(hidden_dim=None) + mixture(Fix, per_head=False)"),
        MixtureSynthesizer(
            [
                DenseSynthesizer(H, None, N),
                MixtureSynthesizer([R(H, N, fixed=True)], per_head=False),
            ]
        ),
    ),
    (
        get("fd(factors=(3, 3), hidden_dim=6, activation='gelu')"),
        FactorizedDenseSynthesizer(H, 6, N, factors=(3, 3), activation="gelu"),
    ),
    (
        get("R(max_length=4, long_inputs='tile')"),
        R(H, 4, long_inputs="tile"),
    ),
    (
        get("V(key_dim=3, use_bias=False, kernel_initializer='ones')"),
        V(H, 3, use_bias=False, kernel_initializer="ones"),
    ),
    # case, blanks and hyphens
    *(
        (get(spelled), get("FR(rank=3)+Fix"))
        for spelled in (
            "factorized_random(rank=3)+fixed_random",
            "Factorized-Random( rank = 3 ) + FIXED RANDOM",
            " fr(rank=3,)\n+ fix() ",
        )
    ),
    # groups of heads
    *(
        (
            get(spelled),
            synthesizers.HeadGroupsSynthesizer([V(1, K), R(1, N)]),
        )
        for spelled in (
            "heads(V=1, R=1)",
            "heads(1 * V + 1 * R)",
            "HEADS(dot_product=1, R=1)",
        )
    ),
    # options as keywords
    (get("D", hidden_dim=None), get("D(hidden_dim=None)")),
    (
        get("FR(rank=4)", dtype="float16"),
        get("FR(rank=4, dtype='float16')"),
    ),
    (get("R+V", per_head=False), get("mixture(R+V, per_head=False)")),
    (get("R+V", use_bias=False), get("mixture(R+V(use_bias=False))")),
    (
        get(
            "mixture(D+V, share_queries=True)",
            kernel_initializer="ones",
        ),
        get(
            "mixture(D(kernel_initializer='ones')"
            "+V(kernel_initializer='ones'), share_queries=True)",
        ),
    ),
    (
        get("R + V(dtype='float16')", dtype="bfloat16"),
        get(
            "mixture(R(dtype='bfloat16') + V(dtype='float16'), "
            "dtype='bfloat16')",
        ),
    ),
]


@pytest.mark.once
@pytest.mark.parametrize(("made", "expected"), SAME)
def test_spellings_make_equal_synthesizers(made, expected):
    assert described(made) == described(expected)


@pytest.mark.once
def test_every_public_synthesizer_has_a_name():
    letters = "V D R Fix FD FR R+V additive relative alibi t5_relative"
    letters = f"{letters} gaussian pattern local_dense".split()
    made = {type(get(name)) for name in [*letters, f"heads(V={H})"]}
    public = {getattr(synthesizers, name) for name in synthesizers.__all__}
    functions = {synthesizers.get, synthesizers.names}
    assert made == public - {synthesizers.Synthesizer} - functions


# Errors.


@pytest.mark.once
@pytest.mark.parametrize(
    ("identifier", "options", "words"),
    [
        ("Q", {}, "Unknown synthesizer 'Q'.*\"R\""),
        ("RV", {}, r"Did you mean 'R\+V'"),
        ("randm", {}, r"Did you mean 'random'"),
        ("", {}, 'Cannot read.*"R"'),
        ("FR(ranks=3)", {}, "no option `ranks`.*'rank'.*long_inputs.*FR"),
        ("R", {"kernel_initializer": "ones"}, "no option `kernel_init"),
        ("Fix(fixed=False)", {}, "no option `fixed`"),
        ("V(num_heads=3)", {}, "no option `num_heads`"),
        ("mixture(R, synthesizers=[])", {}, "no option `synthesizers`"),
        ("FR+V", {"rank": 3}, r"of a part.*FR\(rank=32\) \+ V"),
        ("FR+V", {"foo": 3}, "no option `foo`.*per_head"),
        ("FR(rank=4)", {"rank": 4}, "not both"),
        ("FR(rank=0)", {}, "`rank` must be a positive"),
        ("FR(32)", {}, r'write "FR\(rank=32\)"'),
        ("FR(R, V)", {}, r'2 values without a name.*"FR\(R \+ V\)"'),
        ("R,V", {}, r'write "R \+ V"'),
        ("FR(rank=size)", {}, "rank=size` is not a literal"),
        ("R(long_inputs=tile)", {}, "not a literal.*strings in quotes"),
        ("FR(**{'rank': 8})", {}, "Options need names"),
        ("FR(rank=8", {}, "never closed"),
        ("R + (D + V)", {}, "is not a name"),
        ("R(D + V)", {}, 'Only "mixture" and "heads"'),
        ("mixture", {}, "they require them"),
        ("heads(V=1)", {}, "must add up.*num_heads=2, 1 heads"),
        ("heads(V=1, dens=1)", {}, "no option `dens`"),
        ("heads(V=True, R=1)", {}, "Each group.*Received: True for"),
        ("R(max_length=4)", {}, "has its own.*max_length=9.*=4"),
        ("R(seed='a')", {}, "`seed` must be an integer"),
        ("R(name='a/b')", {}, "name"),
        ({"a": 1}, {}, "Received"),
        (["R", "V"], {}, r'write "R \+ V"'),
        (get("R"), {"rank": 4}, "Only names accept options.*'rank': 4"),
        (serialize(get("R")), {"rank": 4}, "Only names accept options"),
        *(
            (name, {}, f"is a mixer, not a synthesizer.*{words}")
            for name, words in (
                ("local(window=64)", r'="V", pattern="local\(window=64\)"'),
                ("local(R, window=4)", r'="R", pattern="local\(window=4\)"'),
                ("light_conv(width=3)", r'mixers.get\("light_conv\(width=3'),
                ("fnet", 'models accept synthesizer="fnet"'),
                ("R + fnet", "cannot be part of a sum"),
            )
        ),
    ],
)
def test_errors_say_what_is_expected(identifier, options, words):
    with pytest.raises(ValueError, match=f"(?s){words}"):
        get(identifier, **options)


@pytest.mark.once
@pytest.mark.parametrize("name", ["num_heads", "key_dim", "max_length"])
def test_missing_arguments_can_be_in_brackets(name):
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
@pytest.mark.parametrize("function", [synthesizers.get, mixers.get])
@pytest.mark.parametrize(
    "config",
    [
        {"class_name": "NoSuchClass", "config": {}},
        {"class_name": "Zeros", "config": {}, "module": []},
        {"class_name": "R", "config": {}, "registered_name": ["R"]},
    ],
)
def test_configs_that_name_no_class_are_value_errors(config, function):
    with pytest.raises(ValueError, match=r"make the object.*Received: \{"):
        function(config, H, K, N)


@pytest.mark.parametrize("letter", ["R", "D", "FR", "FD", "R+V"])
def test_the_solution_for_a_too_long_input_works(letter):
    x = np.ones((1, N + 1, D), "float32")
    layer = SyntheticAttention(H, K, synthesizer=letter, max_length=N)
    tiled = letter.replace("+V", "") + "(long_inputs='tile')"
    with pytest.raises(ValueError, match=r'synthesizer="R\(long_inputs='):
        layer(x)
    layer = SyntheticAttention(H, K, synthesizer=tiled, max_length=N)
    assert layer(x).shape == x.shape


@pytest.mark.once
@pytest.mark.parametrize("name", ["Q", "fact_random", "R +", 3])
def test_errors_of_names_say_where_the_names_are_listed(name):
    for function in (get, lambda x: mixers.get(x, H, K, N)):
        with pytest.raises(ValueError, match=r"Expected|must be") as error:
            function(name)
        words = str(error.value)
        assert "`keras_synth.synthesizers.names()`" in words
        assert len(words) < 400
        assert "local_dense" not in words
    if name != 3:
        assert "`keras_synth.mixers.names()`" in words
    if name == "fact_random":
        assert "'factorized_random' or 'random'" in words


# No string makes anything but a synthesizer or a ValueError.

LETTERS = "V D R Fix FD FR mixture Q fixed-random".split()
OPTIONS = (
    "rank seed dtype name key_dim hidden_dim long_inputs initializer factors "
    "max_length shared_heads share_queries use_bias kernel_initializer foo"
).split()
LITERALS = (
    "0 -1 7 0.5 1.5 1e999 1j True None '' 'x' 'relu' 'tile' b'x' () (1,2) [] "
    "[1] {} {1} {[]} {'class_name':'x'} {'class_name':'Zeros','config':{}} ..."
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
    # `check` checks all except the values of options.
    assert errors[0] in (None, errors[1])


@pytest.mark.once
def test_endless_strings_are_value_errors():
    for identifier in (
        "R+" * 5000 + "R",
        "mixture(" * 300 + "R" + ")" * 300,
        f"FR(rank={'9' * 5000})",
    ):
        with pytest.raises(ValueError, match="Cannot read"):
            get(identifier)
