"""The words and the grammar of generated translations.

No English word has two meanings, and none is a word of the other language.
Those that can follow "a" start with a consonant.
"""

# A noun has one of three genders, which nothing but the noun tells. Per
# gender: singular, plural, and the stem of the translation.
_NOUNS = (
    """
    dog dogs tarim
    goose geese belun
    king kings sodek
    baker bakers mipar
    girl girls ronel
    painter painters fadok
    witch witches lemin
    bear bears gurad
    """,
    """
    cat cats nolik
    mouse mice darun
    queen queens pamel
    farmer farmers tubik
    child children veran
    teacher teachers kolad
    thief thieves sirum
    duck ducks horak
    """,
    """
    bird birds zetol
    wolf wolves mandir
    sailor sailors fulek
    woman women rasod
    boy boys dinar
    doctor doctors pelug
    singer singers bakon
    fox foxes jurim
    """,
)
NOUNS = [
    (*row.split(), gender)
    for gender, rows in enumerate(_NOUNS)
    for row in rows.strip().splitlines()
]
# The plural of a translated noun.
NOUN_PLURAL = "{stem}en"

# By gender: what adjectives, articles and verbs end in, singular and plural,
# and the word that counts nouns of this gender.
ENDINGS = (("a", "ai"), ("o", "oi"), ("u", "ui"))
COUNTERS = ("kap", "mil", "zon")

# Translation: the stem, to which the ending is added.
ADJECTIVES = """
    big gron
    small pisk
    young nuv
    tired lasm
    quiet shil
    brave kord
    clever vint
    hungry famr
    lucky torb
    green zelm
"""
ADJECTIVES = [row.split() for row in ADJECTIVES.strip().splitlines()]

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

# Plural, singular and past, and the stem of the translation.
VERBS = """
    see sees saw mir
    follow follows followed sek
    find finds found trov
    carry carries carried bal
    help helps helped jud
    know knows knew ken
    hear hears heard ort
    call calls called vok
    visit visits visited hamp
    teach teaches taught ler
    remember remembers remembered memb
    greet greets greeted salt
"""
VERBS = [row.split() for row in VERBS.strip().splitlines()]
VERB_PAST = "{stem}et{ending}"
VERB_PRESENT = "{stem}{ending}"
NOT = "ne"

PREPOSITIONS = """
    near pri
    behind dor
    with kun
    without sem
"""
PREPOSITIONS = [row.split() for row in PREPOSITIONS.strip().splitlines()]

ADVERBS = """
    today hodi
    often plur
    again denov
    gladly felis
    secretly kash
    rarely malt
"""
ADVERBS = [row.split() for row in ADVERBS.strip().splitlines()]
