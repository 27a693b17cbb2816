"""Backbones of every synthesizer and mixer, in sizes that devices divide."""

import re

import cases
import keras

from keras_synth import mixers, models
from keras_synth.logits import Logits
from keras_synth.models import layouts
from keras_synth.synthesizers import Synthesizer

VOCABULARY, LAYERS, HEADS, WIDTH, HIDDEN, LENGTH = 32, 1, 4, 16, 24, 8
BACKBONES = {
    **{name: {} for name in (*cases.CASES, *cases.MIXERS)},
    "linformer(rank=4, share='none')": {},
    "attention(V, use_gate=True)": {},
    "a user's own": {},
    "R+V, T5's positions": {
        "synthesizer": "R + V",
        "positions": "t5_relative",
        "num_segments": 2,
        "use_gated_activation": True,
    },
    "translation": {"synthesizer": "R + V", "cross_synthesizer": "D + FR"},
}


@keras.saving.register_keras_serializable("tests")
class Nearness(Synthesizer):
    """One of a user's own, which says how its weight is cut."""

    reads_tokens = False
    weight_axes = {"nearness": (None, "model")}

    def build(self, query_shape, source_shape=None):
        self.nearness = self.add_weight(
            name="nearness", shape=(self.max_length, self.num_heads)
        )

    def call(self, query, keys=None, *, start=0, length=None):
        rows, columns = self.lengths(query, start, length)
        table = keras.ops.transpose(self.nearness)[:, None, :columns]
        return Logits(bias=keras.ops.tile(table, (1, rows, 1))[None])


# Elsewhere they are of two heads, or share keys that four devices cannot cut.
_OF_FOUR_HEADS = {
    "R+V grouped": "R + V(rotary=True, num_key_value_heads=4)",
    "heads(V=1, R=1)": "heads(V=1, R=3)",
    "heads": "heads(1 * D + 3 * mixture(relative(max_distance=2) + V))",
}


def synthesizer(name):
    """The synthesizer of a case, of four heads."""
    if name in _OF_FOUR_HEADS:
        return _OF_FOUR_HEADS[name]
    if name == "a user's own":
        return Nearness(HEADS, max_length=LENGTH)
    if name not in cases.CASES:
        return name
    before = cases.H, cases.N
    cases.H, cases.N = HEADS, LENGTH
    try:
        return cases.CASES[name]()
    finally:
        cases.H, cases.N = before


def backbone(name, **options):
    """The backbone of a name."""
    options = {
        "synthesizer": synthesizer(name),
        "dropout": 0.0,
        "max_sequence_length": LENGTH,
        **BACKBONES.get(name, {}),
        **options,
    }
    cls = models.SynthesizerBackbone
    if "cross_synthesizer" in options:
        cls = models.SynthesizerSeq2SeqBackbone
    return cls(VOCABULARY, LAYERS, HEADS, WIDTH, HIDDEN, **options)


def mixer(name):
    """The layer of a name, as its backbone makes it."""
    made = synthesizer(name)
    key_dim = WIDTH // HEADS
    if isinstance(made, str):
        return mixers.get(made, HEADS, key_dim, LENGTH)
    return mixers.SyntheticAttention(HEADS, key_dim, synthesizer=made)


# Weights of two and more axes that every device copies, in addition to those
# whose `weight_axes` are `()`, and to tables with one row for all heads at cut
# paths: W2, W_a and b2 with `shared_heads=True`, Linformer's E and F unless
# `share="none"`.
_COPIED = (
    r".*/group_\d+/.*",  # groups of heads, "heads(V=4, R=4)"
    layouts.WHOLE_HEADS + r".*/lora_.*",  # factors of low rank
    layouts.WHOLE_HEADS + r".*/\w+_(scale|zero)",  # of quantized weights
)


def is_replicated(path: str) -> bool:
    """Whether a weight is named as one that every device has a copy of."""
    whole = (name for name, axes in layouts.declared().items() if not any(axes))
    return any(re.fullmatch(name, path) for name in (*_COPIED, *whole))
