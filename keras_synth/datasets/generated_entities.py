"""Sentences from a generator whose names must be recognized by context."""

from typing import Any

import numpy as np

from keras_synth._backend.checks import check_positive
from keras_synth.datasets.words import (
    ENTITIES,
    ENTITY_NAMES,
    JOINERS,
    fill,
    pick,
)

KINDS = tuple(ENTITIES)
LABELS = ("O", *(f"{mark}-{kind}" for kind in KINDS for mark in "BI"))


def generated_entities(num_examples: int, seed: int = 0) -> tuple[Any, ...]:
    """Writes sentences of words, with persons, places and organisations.

    A label is `"O"`, or `"B-"` at the first word of an entity and `"I-"` at
    the others, with its kind: `"PER"`, `"LOC"`, `"ORG"`. All kinds have the
    same 40 names: "My uncle married Florence on Monday", "The train from
    Florence came on Sunday", "Florence dismissed twenty workers". What tells
    them apart stands before a name, behind it, or some words off, as in "The
    baker wrote about Florence , the harbour". A sentence has one such clause
    or two.

    Whoever gives each word its most frequent label knows which words are
    names, and of a third of them the kind.

    Args:
        num_examples: Integer, number of sentences.
        seed: Integer, not negative. The same seed gives the same sentences.

    Returns:
        `(sentences, labels)`: two lists of lists of strings, a label for each
        word. `CLASS_NAMES["generated_entities"]` are all labels.

    Raises:
        ValueError: `num_examples` is no positive integer.

    Example:

    ```python
    sentences, labels = generated_entities(2000, seed=1)
    test_sentences, test_labels = generated_entities(500, seed=2)
    ```
    """
    check_positive("num_examples", num_examples)
    rng = np.random.default_rng(seed)
    sentences, labels = [], []
    for _ in range(num_examples):
        words, tags = _clause(rng)
        if rng.integers(2):
            joiner = pick(rng, JOINERS).split()
            more_words, more_tags = _clause(rng)
            words += joiner + more_words
            tags += ["O"] * len(joiner) + more_tags
        words[0] = words[0][0].upper() + words[0][1:]
        sentences.append([*words, "."])
        labels.append([*tags, "O"])
    return sentences, labels


def _clause(rng):
    """The words of a clause, and their labels."""
    kind = pick(rng, KINDS)
    entity = ENTITIES[kind]
    words, labels = [], []
    sentence = fill(rng, pick(rng, entity.sentences))
    for word in sentence.replace("{word}", pick(rng, entity.words)).split():
        if word == "{entity}":
            form = pick(rng, entity.forms).split()
            words += [x.format(name=pick(rng, ENTITY_NAMES)) for x in form]
            labels += [f"B-{kind}"] + [f"I-{kind}"] * (len(form) - 1)
        else:
            words.append(word)
            labels.append("O")
    return words, labels
