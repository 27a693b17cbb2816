"""Words and grammar from `words.toml`, and sentences of them."""

import re
import tomllib
from importlib import resources

import numpy as np

from keras_synth._backend.checks import check_number, check_positive

_WORDS = tomllib.loads(
    (resources.files(__package__) / "words.toml").read_text(encoding="utf-8")
)


def _rows(text):
    return [row.split() for row in text.strip().splitlines()]


# Reviews and pairs. Opinions by label, 0 for negative.
OPINIONS = tuple(words.split() for words in _WORDS["opinions"].values())
SLOTS = {slot: words.split() for slot, words in _WORDS["slots"].items()}
NEUTRAL_SENTENCES, OPINION_SENTENCES, HARD_SENTENCES, PAIR_SENTENCES = _WORDS[
    "sentences"
].values()
TOPICS = _rows(_WORDS["pairs"]["topics"])

# Entities. Forms of names, words and sentences by kind.
_ENTITIES = _WORDS["entities"]
ENTITY_NAMES, JOINERS = _ENTITIES["names"].split(), _ENTITIES["joiners"]
ENTITIES = {
    kind: (
        _ENTITIES["forms"][kind],
        words.split(),
        _ENTITIES["sentences"][kind],
    )
    for kind, words in _ENTITIES["kinds"].items()
}

# Translations. A noun is a singular, a plural, a stem and a gender.
_LANGUAGE = _WORDS["translations"]
NOUNS = [
    (*row, gender)
    for gender, rows in enumerate(_LANGUAGE["nouns"])
    for row in _rows(rows)
]
ADJECTIVES, VERBS, PREPOSITIONS, ADVERBS = (
    _rows(_LANGUAGE[name])
    for name in ("adjectives", "verbs", "prepositions", "adverbs")
)
COUNTERS, ENDINGS, DETERMINERS, PATTERNS = (
    _LANGUAGE[name]
    for name in ("counters", "endings", "determiners", "patterns")
)


def new_rng(seed):
    """Returns a generator of random numbers, or raises."""
    return np.random.default_rng(check_number("seed", seed))


def pick(rng, options):
    """Returns a random option."""
    return options[rng.integers(len(options))]


def fill(rng, sentence):
    """Fills the slots in `SLOTS`, but not others."""
    return re.sub(
        r"{(\w+)}",
        lambda slot: pick(rng, SLOTS.get(slot[1], [slot[0]])),
        sentence,
    )


def shuffled(rng, examples):
    """Returns shuffled columns of examples, with the last as array."""
    examples = [examples[i] for i in rng.permutation(len(examples))]
    *sides, labels = map(list, zip(*examples, strict=True))
    return *sides, np.array(labels, "int32")


def check_integers(**limits):
    """Raises unless each value is an integer in `(value, least, most)`."""
    for name, (value, least, *most) in limits.items():
        if not least <= check_positive(name, value) <= min(most, default=value):
            words = (
                f"from {least} to {most[0]}" if most else f"at least {least}"
            )
            raise ValueError(f"{name} must be {words}. Received: {value}")


def check_rates(**rates):
    """Raises unless each number is from 0 to 1."""
    for name, rate in rates.items():
        if not 0 <= rate <= 1:
            raise ValueError(f"{name} must be from 0 to 1. Received: {rate!r}")
