"""A generator of sentences and translations that are not word by word."""

from typing import Any, NamedTuple

from keras_synth.datasets import words
from keras_synth.datasets.words import check_integers, new_rng, pick


def generated_translations(count: int, seed: int = 0) -> tuple[Any, ...]:
    """Generates English sentences and translations to an invented language.

    Each sentence has one correct translation. It depends on

    - *words*: 24 nouns, 12 verbs, 10 adjectives and a few others,
    - *order*: the verb is last and the adverb first, an adjective is after its
      noun, and a noun with its preposition is before the noun that it modifies,
    - *agreement*: articles, adjectives and verbs have one of six endings, by
      gender and number of their noun. Only the noun determines its gender, and
      other nouns are between the subject and its verb.

    ```
    the big dogs near a cat saw two foxes today
    hodi nolik pri lai tarimen gronai du zon jurimen miretai

    a fox does not see this tired cat
    jurim nolik lasmo so ne miru
    ```

    Args:
        count: Integer, number of sentences. A larger number begins with the
            same sentences.
        seed: Non-negative integer. The same seed makes the same sentences.

    Returns:
        `(sources, targets)`, two lists of strings: words in lower case,
        separated by spaces, 5 to 14 in a source. All sources are distinct, so
        parts of the lists can be training and test sets.

    Raises:
        ValueError: If `count` is not a positive integer.

    Example:

    ```python
    sources, targets = generated_translations(5000)
    train = sources[:4000], targets[:4000]
    test = sources[4000:], targets[4000:]
    ```
    """
    check_integers(count=(count, 1))
    rng = new_rng(seed)
    translations: dict[str, str] = {}
    while len(translations) < count:
        source, target = _sentence(rng)
        translations[source] = target
    return list(translations), list(translations.values())


class _Phrase(NamedTuple):
    english: str
    translation: str
    is_plural: bool
    ending: str  # of words that agree with the noun


def _sentence(rng):
    numbers = rng.choice(len(words.NOUNS), size=3, replace=False)
    subject, other, third = (_noun_phrase(rng, words.NOUNS[i]) for i in numbers)
    place = rng.integers(3)  # of a third noun: with one of the two, or none
    if place == 0:
        subject = _with_preposition(rng, subject, third)
    elif place == 1:
        other = _with_preposition(rng, other, third)
    verb, translated_verb = _verb(rng, subject)
    adverb, translated_adverb = _maybe(rng, words.ADVERBS)
    return (
        _spaced(subject.english, verb, other.english, adverb),
        _spaced(
            translated_adverb,
            subject.translation,
            other.translation,
            translated_verb,
        ),
    )


def _noun_phrase(rng, noun):
    singular, plural, stem, gender = noun
    is_plural = bool(rng.integers(2))
    ending = words.ENDINGS[gender][is_plural]
    determiner, pattern = pick(rng, words.DETERMINERS[is_plural])
    adjective, adjective_stem = _maybe(rng, words.ADJECTIVES)
    translation = pattern.format(
        counter=words.COUNTERS[gender],
        ending=ending,
        noun=words.PATTERNS["plural"].format(stem=stem) if is_plural else stem,
        adjective=adjective_stem + ending if adjective else "",
    )
    english = _spaced(determiner, adjective, plural if is_plural else singular)
    return _Phrase(english, _spaced(translation), is_plural, ending)


def _with_preposition(rng, phrase, other):
    """A phrase with a preposition and another phrase."""
    preposition, postposition = pick(rng, words.PREPOSITIONS)
    return phrase._replace(
        english=_spaced(phrase.english, preposition, other.english),
        translation=_spaced(
            other.translation, postposition, phrase.translation
        ),
    )


def _verb(rng, subject):
    """A verb that agrees with the subject, and its translation."""
    plural, singular, past, stem = pick(rng, words.VERBS)
    is_past, is_negated = rng.integers(2, size=2)
    pattern = words.PATTERNS["past" if is_past else "present"]
    translation = pattern.format(stem=stem, ending=subject.ending)
    if is_negated:
        present_auxiliary = "do" if subject.is_plural else "does"
        auxiliary = "did" if is_past else present_auxiliary
        translation = words.PATTERNS["negated"].format(verb=translation)
        return _spaced(auxiliary, "not", plural), translation
    present = plural if subject.is_plural else singular
    return past if is_past else present, translation


def _maybe(rng, rows):
    """A random row, or with probability 0.5 two empty strings."""
    return pick(rng, rows) if rng.integers(2) else ("", "")


def _spaced(*parts):
    return " ".join(" ".join(parts).split())
