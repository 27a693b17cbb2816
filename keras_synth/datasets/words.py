"""The words and the grammar of generated texts; `words.toml` has the words."""

import tomllib
from importlib import resources

_WORDS = tomllib.loads(
    (resources.files(__package__) / "words.toml").read_text(encoding="utf-8")
)


def _rows(text):
    return [row.split() for row in text.strip().splitlines()]


# Reviews. Opinions by label, 0 negative.
OPINIONS = tuple(words.split() for words in _WORDS["opinions"].values())
SLOTS = {slot: words.split() for slot, words in _WORDS["slots"].items()}
NEUTRAL_SENTENCES, OPINION_SENTENCES, HARD_SENTENCES, PAIR_SENTENCES = map(
    tuple, _WORDS["sentences"].values()
)
TOPICS = _rows(_WORDS["pairs"]["topics"])

# Translations. A noun is a singular, a plural, a stem and a gender.
NOUNS = [
    (*row, gender)
    for gender, rows in enumerate(_WORDS["translations"]["nouns"])
    for row in _rows(rows)
]
ADJECTIVES, VERBS, PREPOSITIONS, ADVERBS = (
    _rows(_WORDS["translations"][name])
    for name in ("adjectives", "verbs", "prepositions", "adverbs")
)
# The plural of a translated noun.
NOUN_PLURAL = "{stem}en"
# By gender: what adjectives, articles and verbs end in, singular and plural,
# and the word that counts nouns of this gender.
ENDINGS = (("a", "ai"), ("o", "oi"), ("u", "ui"))
COUNTERS = ("kap", "mil", "zon")
# A determiner and the phrase it makes; singular, plural.
DETERMINERS = (
    (
        ("a", "{noun} {adjective}"),
        ("the", "l{ending} {noun} {adjective}"),
        ("this", "{noun} {adjective} s{ending}"),
    ),
    (
        ("two", "du {counter} {noun} {adjective}"),
        ("the", "l{ending} {noun} {adjective}"),
        ("these", "{noun} {adjective} s{ending}"),
    ),
)
VERB_PAST = "{stem}et{ending}"
VERB_PRESENT = "{stem}{ending}"
NOT = "ne"
