"""What the names of variants stand for, from their classes' docstrings."""

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
    synthesizers = keras_synth.synthesizers.registry.SYNTHESIZERS
    mixers = keras_synth.mixers.registry.MIXERS
    entry = synthesizers.find(term.name) or mixers.find(term.name)
    if entry is not None and not term.parts:
        name = term.name
        if name.lower() != entry.name:
            name = f"{name} ({entry.name})"
        yield name, _sentence(entry.maker)
    for part in term.parts:
        yield from _parts(part)


def _sentence(maker):
    """The first sentence of a docstring, without its name in brackets."""
    first = maker.__doc__.strip().splitlines()[0]
    return re.sub(r' \("[^)]*\)(?=[.,])', "", first).replace("`", "")
