"""What the names of variants stand for, from their classes' docstrings."""

import functools
import re

import keras_synth  # what needs Keras is imported when first asked for
from keras_synth import identifiers


def explained(variants):
    """The parts of variants, and what each is in a sentence.

    Args:
        variants: List of strings; those that mean nothing here say nothing.

    Returns:
        List of `(name, sentence)`, each name once, in the variants' order.
    """
    found = {}
    for variant in variants:
        try:
            terms = identifiers.read(variant, "a name")
        except ValueError:
            continue
        for term in terms:
            found.update(_parts(term))
    return [*found.items()]


def _parts(term):
    """Name and sentence of a term, and of the parts in its brackets."""
    cls = _class(term.name)
    if cls is not None:
        known = keras_synth.synthesizers.registry.SYNTHESIZERS
        entry = known.find(term.name)
        full = term.name if entry is None else entry.name
        name = term.name if full == term.name else f"{term.name} ({full})"
        yield name, _sentence(cls)
    for part in term.parts:
        yield from _parts(part)


@functools.cache
def _class(name):
    """The class that a name stands for, if it does without parts."""
    synthesizers, mixers = keras_synth.synthesizers, keras_synth.mixers
    try:
        cls = mixers.registry.mixer_class(name)
        if cls is not mixers.SyntheticAttention:
            return cls
        return type(synthesizers.get(name, 1, 1, 1))
    except (TypeError, ValueError):
        return None


def _sentence(cls):
    """The first sentence of a docstring, without its name in brackets."""
    first = cls.__doc__.strip().splitlines()[0]
    return re.sub(r' \("[^)]*\)(?=[.,])', "", first).replace("`", "")
