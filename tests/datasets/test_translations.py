import re

import pytest

from keras_synth import datasets
from keras_synth.datasets import words

pytestmark = pytest.mark.once  # nothing here depends on the backend

SOURCES, TARGETS = datasets.generated_translations(5000, seed=7)
PAIRS = [
    (source.split(" "), target.split(" "))
    for source, target in zip(SOURCES, TARGETS, strict=True)
]

NOUNS = {
    form: (stem + "en" * is_plural, gender, is_plural)
    for singular, plural, stem, gender in words.NOUNS
    for is_plural, form in enumerate((singular, plural))
}
VERBS = {
    form: (stem, form == past)
    for plural, singular, past, stem in words.VERBS
    for form in (plural, singular, past)
}
ADJECTIVES, PREPOSITIONS, ADVERBS = map(
    dict, (words.ADJECTIVES, words.PREPOSITIONS, words.ADVERBS)
)
DETERMINERS = {"a", "the", "this", "these", "two"}


def read_phrase(source):
    """Removes a noun phrase of the source; returns its translation, ending."""
    determiner, word = source.pop(0), source.pop(0)
    adjective = ADJECTIVES.get(word)
    noun, gender, is_plural = NOUNS[source.pop(0) if adjective else word]
    ending = "aou"[gender] + "i" * is_plural
    counted = ["du", ("kap", "mil", "zon")[gender]]
    return [
        *{"the": ["l" + ending], "two": counted}.get(determiner, []),
        noun,
        *([adjective + ending] if adjective else []),
        *(["s" + ending] if determiner in ("this", "these") else []),
    ], ending


def read_phrases(source):
    """The same, with a second phrase after a preposition, if any."""
    phrase, ending = read_phrase(source)
    if source and source[0] in PREPOSITIONS:
        postposition = PREPOSITIONS[source.pop(0)]
        phrase = [*read_phrase(source)[0], postposition, *phrase]
    return phrase, ending


def translate(source):
    """Translates by reading the words of the source, and nothing else."""
    source = list(source)
    subject, ending = read_phrases(source)
    is_negated = source[1] == "not"
    did = is_negated and source[0] == "did"
    if is_negated:
        source = source[2:]
    stem, is_past = VERBS[source.pop(0)]
    verb = stem + "et" * (is_past or did) + ending
    other, _ = read_phrases(source)
    adverb = [ADVERBS[word] for word in source]
    return [*adverb, *subject, *other, *["ne"] * is_negated, verb]


def test_the_source_determines_the_target():
    for source, target in PAIRS:
        assert translate(source) == target
    assert {len(source) for source, _ in PAIRS} == {*range(5, 15)}
    more = zip(*datasets.generated_translations(5000, seed=8), strict=True)
    known = dict(zip(SOURCES, TARGETS, strict=True))
    assert all(known.get(source, target) == target for source, target in more)


def test_the_examples_of_the_documentation_are_right():
    text = datasets.generated_translations.__doc__
    examples = [
        block.split("\n")
        for block in text.split("```")[1].replace("    ", "").split("\n\n")
    ]
    assert len(examples) == 2
    for lines in examples:
        source, target = filter(None, lines)
        assert " ".join(translate(source.split(" "))) == target


def test_the_verb_agrees_with_a_subject_far_away():
    """Neither the verb nor the noun before it tells how the verb ends."""
    of_verb, of_noun_before = {}, {}
    for source, target in PAIRS:
        place = next(i for i, word in enumerate(source) if word in VERBS)
        if PREPOSITIONS.keys() & source[:place]:
            before = next(w for w in reversed(source[:place]) if w in NOUNS)
            ending = re.search("[aou]i?$", target[-1])[0]
            of_verb.setdefault(VERBS[source[place]][0], set()).add(ending)
            of_noun_before.setdefault(before, set()).add(ending)
    assert of_noun_before.keys() == NOUNS.keys()
    assert {len(found) for found in of_noun_before.values()} == {6}
    assert {len(found) for found in of_verb.values()} == {6}
    assert len(of_verb) == len(words.VERBS)
