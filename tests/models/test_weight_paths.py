"""Names that do not depend on history, and synthesizers of one owner each."""

import gc
import random

import keras
import pytest
import saved_files
from cases import CASES, KINDS, D, H, K, N, T

from keras_synth import layers, models
from keras_synth.synthesizers import (
    DenseSynthesizer,
    DotProductSynthesizer,
    MixtureSynthesizer,
    RandomSynthesizer,
    get,
)

serialized = keras.saving.serialize_keras_object


def built(layer, *shapes):
    layer.build(*shapes)
    return layer


MODELS = {
    "classifier": saved_files.classifier,
    "translator": saved_files.translator,
    "functional": saved_files.functional,
    "language model": lambda: models.SynthesizerCausalLM(
        models.SynthesizerBackbone(20, 2, 2, 8, 8, "D+V", causal=True)
    ),
    "segments": lambda: models.SynthesizerBackbone(
        20, 1, 2, 8, 8, "V+FR", num_segments=2
    ),
}
LAYERS = {
    f"attention {case}": lambda case=case: built(
        layers.SyntheticAttention(H, K, synthesizer=CASES[case]()), (None, T, D)
    )
    for case in KINDS
} | {
    "encoder": lambda: built(
        layers.SynthesizerEncoder(16, H, synthesizer=CASES["nested"]()),
        (None, T, D),
    ),
    "decoder": lambda: built(
        layers.SynthesizerDecoder(
            16, H, synthesizer="D+R", max_length=N, cross_synthesizer="V+FD"
        ),
        (None, T, D),
        (None, T, D),
    ),
}


def paths(model):
    """Without Keras' counters in the names of the outermost layers."""
    if isinstance(model, keras.Model) and "functional" not in model.name:
        return [weight.path for weight in model.weights]
    return [weight.path.split("/", 1)[1] for weight in model.weights]


@pytest.mark.parametrize("name", MODELS | LAYERS)
def test_the_second_of_a_kind_has_the_paths_of_the_first(name):
    make = (MODELS | LAYERS)[name]
    first = make()
    full = [weight.path for weight in first.weights]
    assert len(set(full)) == len(full)
    DenseSynthesizer(H, K, N)
    layers.SynthesizerEncoder(16, H, synthesizer="R+V", max_length=N)
    assert paths(make()) == paths(first)


def test_users_names_are_kept():
    mine = RandomSynthesizer(H, N, name="positions")
    mixture = MixtureSynthesizer([mine, DotProductSynthesizer(H, K)])
    names = [part.name for part in mixture.synthesizers]
    assert names == ["positions", "part_1"]
    again = MixtureSynthesizer.from_config(mixture.get_config())
    assert [part.name for part in again.synthesizers] == names
    with pytest.raises(ValueError, match="different names"):
        MixtureSynthesizer(
            [
                RandomSynthesizer(H, N, name="a"),
                DenseSynthesizer(H, K, N, name="a"),
            ]
        )


def test_an_object_is_part_of_one_layer():
    shared = RandomSynthesizer(H, N)
    first = layers.SyntheticAttention(H, K, synthesizer=shared)
    with pytest.raises(ValueError, match=r"part of only one layer.*Received"):
        layers.SyntheticAttention(H, K, synthesizer=shared)
    with pytest.raises(ValueError, match="part of only one layer"):
        MixtureSynthesizer([shared, DotProductSynthesizer(H, K)])
    one = DenseSynthesizer(H, K, N)
    with pytest.raises(ValueError, match="a different object"):
        MixtureSynthesizer([one, one])
    del first
    gc.collect()
    layers.SyntheticAttention(H, K, synthesizer=shared)


def test_blocks_make_new_synthesizers_from_an_object():
    template = get("D+R", H, K, N)
    blocks = [
        built(layers.SynthesizerEncoder(16, H, synthesizer=template), (1, T, D))
        for _ in range(2)
    ]
    mine, other = (block.attention.synthesizer for block in blocks)
    assert mine is not other
    assert template not in (mine, other)


@pytest.mark.parametrize("kind", ["name", "config", "object"])
def test_blocks_build_nothing_before_they_are_built(kind):
    """As `registry.check`, they make no layer of another synthesizer."""
    made = get("D+R", H, K, N)
    given = {"name": "D+R", "config": serialized(made), "object": made}[kind]
    states = []
    for one in ("V", given):
        random.seed(0)  # the block's own initializers draw seeds, no others
        layers.SynthesizerDecoder(
            16, H, synthesizer=one, max_length=N, cross_synthesizer=one
        )
        states.append(random.getstate())
    assert states[0] == states[1]
    with pytest.raises(ValueError, match="max_length"):
        layers.SynthesizerEncoder(16, H, synthesizer="R")
