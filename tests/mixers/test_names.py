"""Mixers by name: arguments and errors of `mixers.get`."""

import keras
import pytest
from arrays import normal
from assertions import equal
from backend import numpy

from keras_synth import mixers, synthesizers
from keras_synth.layers import SynthesizerEncoder, SyntheticAttention

pytestmark = pytest.mark.once  # nothing here depends on the backend

H, K, D, N, T = 2, 4, 8, 16, 7


@pytest.mark.parametrize(
    ("identifier", "expected"),
    [
        ("fnet", mixers.FourierMixer),
        (" FNet ", mixers.FourierMixer),
        ("R+V", SyntheticAttention),
        ("heads(V=1, R=1)", SyntheticAttention),
        (mixers.PoolingMixer(5), mixers.PoolingMixer),
        (
            keras.saving.serialize_keras_object(mixers.PoolingMixer(5)),
            mixers.PoolingMixer,
        ),
        (synthesizers.get("FR", H, K, N), SyntheticAttention),
    ],
)
def test_get_accepts_names_objects_and_configs_of_both_kinds(
    identifier, expected
):
    mixer = mixers.get(identifier, H, K, N)
    assert type(mixer) is expected
    assert isinstance(mixer, mixers.Mixer)
    assert getattr(mixer, "size", 5) == 5


@pytest.mark.parametrize("name", ["attention", "local"])
def test_a_synthesizer_needs_no_name_in_brackets(name):
    more = ", window=2" if name == "local" else ""
    short, long = (
        mixers.get(f"{name}({one}{more})", H, K, N, name="mixer")
        for one in ("FR(rank=3) + V", "synthesizer='FR(rank=3) + V'")
    )
    assert short.get_config() == long.get_config()
    assert short.synthesizer.synthesizers[0].rank == 3


def test_options_are_of_the_name_or_of_the_layer():
    layer = mixers.get("attention(R, max_length=8, key_dim=3)", H, K, N)
    assert (layer.max_length, layer.synthesizer.max_length) == (8, 8)
    assert layer.key_dim == 3
    with pytest.raises(ValueError, match=r"`key_dim` must be .*'x'"):
        mixers.get("attention(R, key_dim='x')", H, K, N)
    options = {"rank": 3, "dropout": 0.2, "name": "x", "seed": 1}
    mixer = mixers.get("factorized_random", H, K, N, **options)
    assert mixer.synthesizer.rank == 3
    assert (mixer.dropout, mixer.name, mixer.seed) == (0.2, "x", 1)
    again = mixers.get("FR(rank=3)", H, K, N, seed=1)
    for layer in (mixer, again):
        layer.build((None, T, D))
    equal(*(numpy(layer.synthesizer.R1) for layer in (mixer, again)))
    assert mixers.get("fnet", name="x", dtype="bfloat16").name == "x"
    for name, options in (("R", {"seed": 3}), ("R, seed=3", {})):
        layer = mixers.get(f"local({name}, window=2)", H, K, N, **options)
        assert layer.seed == layer.synthesizer.seed == 3
    defaults = {"dropout": 0.5, "rank": 3}  # are for those that have them
    assert mixers.get("attention(V)", H, K, defaults=defaults).dropout == 0.5
    assert mixers.get("linformer", H, K, N, defaults=defaults).rank == 3
    # A block hands its dropout to mixers that have one, to no others.
    SynthesizerEncoder(16, H, synthesizer="fnet", dropout=0.5)(normal(3, T, D))


@pytest.mark.parametrize(
    ("identifier", "options", "words"),
    [
        ("fnett", {}, "Did you mean 'fnet'"),
        ("fnet(V)", {}, "option=value"),
        ("fnet(width=3)", {}, "no option `width`"),
        ("fnet", {"rank": 3}, "no option `rank`"),
        ("fnet(name='x')", {"name": "y"}, "not both"),
        (mixers.FourierMixer(), {"rank": 3}, "Only names accept options"),
        (3, {}, "must be a"),
        (keras.layers.MultiHeadAttention(2, 4), {}, "must be a"),
        *(
            (name, {"max_length": None}, "needs `max_length`")
            for name in (
                *("R", "big_bird", "linformer", "mlp_mixer", "gmlp"),
                *("reformer", "routing", "sinkhorn"),
            )
        ),
        *(
            (name, {"num_heads": None}, "needs `num_heads`")
            for name in ("light_conv", "dynamic_conv")
        ),
        *(
            (f"{name}=17)", {}, "at most `max_length`")
            for name in (
                *("linformer(rank", "reformer(bucket_size"),
                *("routing(clusters", "sinkhorn(block_size"),
            )
        ),
        *(
            (name, {}, "beyond")
            for name in (
                *("local(window=17)", "strided(stride=17)", "big_bird"),
                "longformer(window=2, global_tokens=17)",
            )
        ),
        ("big_bird(window_blocks=2, block_size=2)", {}, "odd"),
        ("compressed(stride=4, kernel=3)", {}, "at least `stride`"),
        ("gmlp(ffn_dim=5)", {}, "must be even"),
        ("strided", {}, "needs `stride`"),
        ("heads(V + R)", {}, "needs a number of heads"),
        ("2 * fnet", {}, "heads"),
        ("heads(0 * V + 2 * R)", {}, "positive integer"),
        ("heads(V=1, R=1) + D", {}, "cannot contain groups"),
        ("heads(V=2) + D", {}, "cannot contain groups"),
        ("attention(R, synthesizer='V')", {}, r"Pass \['synthesizer'\] either"),
        ("R", {"synthesizer": "V"}, "not both"),
        ("attention", {}, "needs `synthesizer`"),
        ("attention(R) + V", {}, "attention"),
        ("attention(fnet)", {}, "fnet"),
        ("local(Q, window=2)", {}, "Unknown synthesizer 'Q'"),
        ("attention(R, normalizer='relu(3)')", {}, "Options need names.*none"),
        ("attention(R, pattern='local(2)')", {}, r"write .local\(window=2\)"),
        ("attention(R, pattern='local(V)')", {}, "Unknown pattern 'local'"),
    ],
)
def test_bad_names_are_errors_also_by_blocks(identifier, options, words):
    sizes = {"num_heads": H, "key_dim": K, "max_length": N, **options}
    with pytest.raises(ValueError, match=rf"{words}.*Received"):
        mixers.get(identifier, **sizes)
    if not options:
        with pytest.raises(ValueError, match="Received"):
            SynthesizerEncoder(16, H, synthesizer=identifier, max_length=N)(
                normal(1, T, D)
            )
