"""Sentences with `{slots}`, filled at random."""

import re

from keras_synth.datasets.words import SLOTS


def pick(rng, options):
    """Returns any of the options, all equally likely."""
    return options[rng.integers(len(options))]


def fill(rng, sentence):
    """Fills the slots named in `SLOTS`, and leaves the others."""
    return re.sub(
        r"{(\w+)}",
        lambda slot: pick(rng, SLOTS.get(slot[1], [slot[0]])),
        sentence,
    )
