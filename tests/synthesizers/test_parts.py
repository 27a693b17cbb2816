"""Synthesizers as parts of layers and of one another."""

import re

import keras
import numpy as np
import pytest
from backend import numpy, only_on
from cases import CASES, KINDS

from keras_synth import synthesizers
from keras_synth.layers import SyntheticAttention
from keras_synth.logits import Logits
from keras_synth.synthesizers import MixtureSynthesizer, RandomSynthesizer

X = np.ones((2, 5, 8), "float32")


@pytest.mark.parametrize(
    "options", [{"alphas_initializer": "no such"}, {"share_queries": True}, {}]
)
def test_a_failed_mixture_leaves_its_parts_to_others(options):
    owner = SyntheticAttention(2, 4, synthesizer="V")
    own = RandomSynthesizer(2, 6)
    other = RandomSynthesizer(2, 6) if options else owner.synthesizer
    with pytest.raises(ValueError, match=r"nitializer|share|part of only one"):
        MixtureSynthesizer([own, other], **options)
    assert own.name == other.name == "synthesizer"
    owner.build(X.shape)
    assert owner.weights[0].path.endswith("synthesizer/query/kernel")
    layer = SyntheticAttention(2, 4, synthesizer=own)
    layer.build(X.shape)
    assert "/part_0/" not in layer.weights[0].path


def test_a_failed_layer_leaves_its_synthesizer_to_others():
    part = RandomSynthesizer(2, 6)
    with pytest.raises(ValueError, match="pattern"):
        SyntheticAttention(2, 4, synthesizer=part, pattern="no such")
    with pytest.raises(ValueError, match="heads"):
        SyntheticAttention(3, 4, synthesizer=part)
    SyntheticAttention(2, 4, synthesizer=part)


@pytest.mark.parametrize(
    ("logits", "per_head", "expected"),
    [
        ([[0.0], [2.0]], True, [[0.0, 0.0], [2.0, 2.0]]),
        ([0.0, 2.0], False, [0.0, 2.0]),
        (3.0, True, [[3.0, 3.0], [3.0, 3.0]]),
    ],
)
def test_initial_alphas_are_those_of_the_initializer(
    logits, per_head, expected
):
    mixture = MixtureSynthesizer(
        [RandomSynthesizer(2, 6), RandomSynthesizer(2, 6)],
        per_head=per_head,
        alphas_initializer=keras.initializers.Constant(logits),
    )
    mixture.build(X.shape)
    np.testing.assert_array_equal(numpy(mixture.alphas), expected)


@only_on("torch", "it has hooks")
@pytest.mark.parametrize("case", [kind for kind in KINDS if kind != "heads"])
def test_hooks_of_pytorch_are_called(case):
    layer = SyntheticAttention(2, 4, synthesizer=CASES[case]())
    layer(X)
    seen = []
    layer.synthesizer.register_forward_hook(lambda *_: seen.append("after"))
    layer.synthesizer.register_forward_pre_hook(
        lambda *_: seen.append("before")
    )
    layer(X)
    assert seen == ["before", "after"]


class OnlyTensors(synthesizers.Synthesizer):
    def call(self, query, keys=None, *, start=0, length=None):
        return keras.ops.ones((1, self.num_heads, 1, length))


class WithoutKeys(OnlyTensors):
    key_dim = 4


class WithoutKeyDim(OnlyTensors):
    def project_keys(self, source):
        return keras.ops.ones((*X.shape[:2], 2, 4))


@pytest.mark.parametrize(
    "synthesizer, message",
    [
        (OnlyTensors(2), "must return"),
        (WithoutKeys(2), "`project_keys`.*key_dim=4 and 0 features"),
        (WithoutKeyDim(2), "`project_keys`.*key_dim=0 and 4 features"),
    ],
)
def test_an_incomplete_class_is_an_error_that_says_what_is_missing(
    synthesizer, message
):
    layer = SyntheticAttention(2, 4, synthesizer=synthesizer)
    with pytest.raises((TypeError, ValueError), match=message):
        layer(X)


class Returns(synthesizers.Synthesizer):
    """A synthesizer with logits of given shapes."""

    def __init__(self, **shapes):
        super().__init__(2)
        self.shapes = shapes

    def call(self, query, keys=None, *, start=0, length=None):
        return Logits(**{k: keras.ops.ones(x) for k, x in self.shapes.items()})


B, T = X.shape[:2]
PAIRS = {"queries": (B, T, 2, 4), "keys": (1, T, 2, 4)}
WRONG = [
    {},
    {"queries": (B, T, 2, 4)},
    {"keys": (B, T, 2, 4)},
    {**PAIRS, "keys": (B, T, 2, 5)},
    {**PAIRS, "keys": (B, T, 1, 4)},
    {**PAIRS, "keys": (B, 1, 2, 4)},
    {**PAIRS, "queries": (B + 1, T, 2, 4)},
    {**PAIRS, "queries": (1, 1, 2, 4)},
    {**PAIRS, "bias": (2, T, T)},
    *({"bias": x} for x in [(B + 1, 2, T, T), (1, 3, T, T), (1, 2, T + 1, T)]),
    *({"bias": x} for x in [(1, 2, T, T + 1), (1, 2, T, 1), (T, T)]),
]


@pytest.mark.parametrize("is_part", [False, True])
@pytest.mark.parametrize("shapes", WRONG)
def test_logits_of_wrong_shapes_are_refused(shapes, is_part):
    synthesizer = Returns(**shapes)
    if is_part:
        synthesizer = MixtureSynthesizer([synthesizer, RandomSynthesizer(2, 6)])
    layer = SyntheticAttention(2, 4, synthesizer=synthesizer)
    received = re.escape(str(shapes or "none of them"))
    with pytest.raises(ValueError, match=f"Returns.*H=2.*{received}"):
        layer(X)


@pytest.mark.parametrize(
    "shapes",
    [PAIRS, {**PAIRS, "bias": (1, 1, 1, T)}, {"bias": (B, 1, T, T)}],
)
def test_logits_may_be_shared_by_samples_heads_and_queries(shapes):
    layer = SyntheticAttention(2, 4, synthesizer=Returns(**shapes))
    output, scores = layer(X, return_attention_scores=True)
    assert (output.shape, scores.shape) == (X.shape, (B, 2, T, T))
    assert layer.compute_output_shape((None, None, 8))[-1] == 8
