"""Names of mixers that stand around a synthesizer."""

import pytest

from keras_synth import mixers
from keras_synth.mixers import registry

pytestmark = pytest.mark.once  # nothing here depends on the backend

H, K, N = 2, 4, 16


@pytest.mark.parametrize("name", ["attention", "local"])
def test_a_synthesizer_needs_no_name_in_brackets(name):
    more = ", window=2" if name == "local" else ""
    short, long = (
        mixers.get(f"{name}({one}{more})", H, K, N, name="mixer")
        for one in ("FR(rank=3) + V", "synthesizer='FR(rank=3) + V'")
    )
    assert type(short) is registry.mixer_class(f"{name}(R{more})")
    assert short.get_config() == long.get_config()
    assert short.synthesizer.synthesizers[0].rank == 3


def test_options_in_brackets_are_those_of_the_layer():
    layer = mixers.get("attention(R, max_length=8, key_dim=3)", H, K, N)
    assert (layer.max_length, layer.synthesizer.max_length) == (8, 8)
    assert layer.key_dim == 3
    with pytest.raises(ValueError, match=r"`key_dim` must be .*'x'"):
        mixers.get("attention(R, key_dim='x')", H, K, N)


@pytest.mark.parametrize("name", ["attention(R{})", "local(R, window=2{})"])
def test_a_seed_reaches_a_named_synthesizer(name):
    for layer in (
        mixers.get(name.format(""), H, K, N, seed=3),
        mixers.get(name.format(", seed=3"), H, K, N),
    ):
        assert layer.seed == layer.synthesizer.seed == 3


def test_defaults_are_for_those_that_have_them():
    defaults = {"dropout": 0.5, "window": 3}
    assert mixers.get("attention(V)", H, K, defaults=defaults).dropout == 0.5
    assert mixers.get("local(V)", H, K, defaults=defaults).pattern.size == 3


@pytest.mark.parametrize(
    "identifier, options, words",
    [
        ("attention(R, synthesizer='V')", {}, r"Pass \['synthesizer'\] once"),
        ("attention(R)", {"synthesizer": "V"}, "not both"),
        ("attention(R, seed=1)", {"seed": 2}, r"Pass \['seed'\] once"),
        ("attention", {}, "needs `synthesizer`"),
        ("local(R)", {}, "needs `window`"),
        ("linear(R)", {}, "option=value"),
        ("attention(R) + V", {}, "cannot be part of a sum"),
        ("attention(fnet)", {}, "is a mixer, not a synthesizer"),
        ("2 * fnet", {}, "only allowed inside of heads"),
        ("attention(2 * V)", {}, "inside of heads"),
        ("local(4)", {}, r'write "local\(window=4\)"'),
        ("local(Q, window=2)", {}, "Unknown synthesizer 'Q'"),
        ("attention(R, pattern='nearby')", {}, "nearby"),
        ("attention(R, normalizer='max')", {}, "Unknown normalizer"),
    ],
)
def test_what_cannot_be_is_refused(identifier, options, words):
    with pytest.raises(ValueError, match=words) as error:
        mixers.get(identifier, H, K, N, **options)
    assert "Received" in str(error.value)
    if not options:  # before a layer is made, too
        with pytest.raises(ValueError, match=words):
            registry.check(identifier, H, N)
