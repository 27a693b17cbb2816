"""Backbones of every synthesizer and mixer, in sizes that devices divide."""

import cases

from keras_synth import mixers, models

VOCABULARY, LAYERS, HEADS, WIDTH, HIDDEN, LENGTH = 32, 1, 4, 16, 24, 8
BACKBONES = {
    **{name: {} for name in (*cases.CASES, *cases.MIXERS)},
    "linformer(rank=4, share='none')": {},
    "R+V, T5's positions": {
        "synthesizer": "R + V",
        "positions": "t5_relative",
        "num_segments": 2,
        "use_gated_activation": True,
    },
    "translation": {"synthesizer": "R + V", "cross_synthesizer": "D + FR"},
}
# Those of groups are of two heads elsewhere.
_OF_FOUR_HEADS = {
    "heads(V=1, R=1)": "heads(V=1, R=3)",
    "heads": "heads(1 * D + 3 * mixture(relative(max_distance=2) + V))",
}


def synthesizer(name):
    """The synthesizer of a case, of four heads."""
    if name in _OF_FOUR_HEADS:
        return _OF_FOUR_HEADS[name]
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
    of_two = "cross_synthesizer" in options
    made = models.SynthesizerSeq2SeqBackbone if of_two else None
    made = made or models.SynthesizerBackbone
    return made(VOCABULARY, LAYERS, HEADS, WIDTH, HIDDEN, **options)


def mixer(name):
    """The layer of a name, as its backbone makes it."""
    made = synthesizer(name)
    key_dim = WIDTH // HEADS
    if isinstance(made, str):
        return mixers.get(made, HEADS, key_dim, LENGTH)
    return mixers.SyntheticAttention(HEADS, key_dim, synthesizer=made)
