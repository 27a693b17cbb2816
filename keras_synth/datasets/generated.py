"""Generators of texts that counts of words cannot classify."""

from typing import Any

from keras_synth.datasets import words
from keras_synth.datasets.words import (
    ENTITIES,
    OPINIONS,
    TOPICS,
    check_integers,
    check_rates,
    fill,
    new_rng,
    pick,
    shuffled,
)

LABELS = ("O", *(f"{mark}-{kind}" for kind in ENTITIES for mark in "BI"))


def generated_reviews(
    num_examples: int,
    seed: int = 0,
    hard_fraction: float = 0.5,
    min_sentences: int = 3,
    max_sentences: int = 6,
) -> tuple[Any, ...]:
    """Generates labelled, English-like movie reviews of about 20 to 60 words.

    An opinion is an adjective that praises or blames, as in "The plot was
    truly dull from start to finish". All other words are neutral.

    - *Easy* reviews: about two thirds of the sentences contain an opinion, and
      the majority decides.
    - *Hard* reviews: one sentence denies an opinion and asserts the opposite,
      by negation ("The plot was not dull but moving") or by order ("At first
      the plot seemed dull, in the end it was moving"). The assertion decides.
      All other sentences are neutral.

    Hard reviews come in pairs with opposite labels and the same counts of
    words, so a bag of words is right on one of the two. If half of the reviews
    are hard, its accuracy is at most 75 %. The word before each adjective is
    enough for 100 %.

    Args:
        num_examples: Integer, number of reviews.
        seed: Non-negative integer. The same seed makes the same reviews.
        hard_fraction: Float in [0, 1], fraction of hard reviews, rounded to
            whole pairs.
        min_sentences: Integer, minimum number of sentences.
        max_sentences: Integer, maximum number of sentences.

    Returns:
        `(texts, labels)`, shuffled: a list of strings and an int32 array, 0 for
        negative, 1 for positive. Both labels are equally frequent; in an odd
        number, one more is negative.

    Raises:
        ValueError: If an argument is out of range or not an integer.

    Example:

    ```python
    texts, labels = generated_reviews(2000, seed=1)
    test_texts, test_labels = generated_reviews(500, seed=2)
    ```
    """
    check_integers(
        num_examples=(num_examples, 1),
        min_sentences=(min_sentences, 1),
        max_sentences=(max_sentences, min_sentences),
    )
    check_rates(hard_fraction=hard_fraction)
    rng = new_rng(seed)
    num_pairs = min(round(num_examples * hard_fraction / 2), num_examples // 2)
    examples = []  # (text, label)
    for index in range(num_examples - num_pairs):
        num_sentences = rng.integers(min_sentences, max_sentences + 1)
        if index < num_pairs:
            examples += _hard_pair(rng, num_sentences)
        else:
            label = (index - num_pairs) % 2
            examples.append((_easy_review(rng, num_sentences, label), label))
    return shuffled(rng, examples)


def _neutral(rng, count):
    return [fill(rng, pick(rng, words.NEUTRAL_SENTENCES)) for _ in range(count)]


def _review(sentences, order):
    return " ".join(f"{sentences[i]}." for i in order)


def _hard_pair(rng, num_sentences):
    """A negative and a positive review with the same words, and labels."""
    others = _neutral(rng, num_sentences - 1)
    sentence = fill(rng, pick(rng, words.HARD_SENTENCES))
    bad, good = (pick(rng, adjectives) for adjectives in OPINIONS)
    order = rng.permutation(num_sentences)
    blame = sentence.format(denied=good, asserted=bad)
    praise = sentence.format(denied=bad, asserted=good)
    return [
        (_review([opinion, *others], order), label)
        for label, opinion in enumerate((blame, praise))
    ]


def _easy_review(rng, num_sentences, label):
    """A review in which most opinions agree with the label."""
    num_opinions = num_sentences - num_sentences // 3
    num_opposite = rng.integers((num_opinions - 1) // 2 + 1)
    sentences = _neutral(rng, num_sentences - num_opinions)
    for i in range(num_opinions):
        sign = label if i >= num_opposite else 1 - label
        opinion = pick(rng, OPINIONS[sign])
        sentence = fill(rng, pick(rng, words.OPINION_SENTENCES))
        sentences.append(sentence.format(opinion=opinion))
    return _review(sentences, rng.permutation(num_sentences))


def generated_pairs(
    num_examples: int,
    seed: int = 0,
    num_topics: int = 12,
    words_per_topic: int = 2,
) -> tuple[Any, ...]:
    """Generates pairs of sentences, labelled by whether they share a topic.

    Each sentence of 6 to 13 words contains one word for a topic: "On Monday a
    quiet stranger asked me about the violin" and "I dreamt of the trumpet
    again" are both about musical instruments. All other words are drawn from
    the same list for all topics. The two sentences never share the word of
    their topic, unless each topic has only one.

    Pairs are made in fours: two sentences about a topic, and the same two with
    words of another topic, in all combinations of first and second sentences.
    Each sentence, and each word in a pair, is as frequent with label 0 as with
    label 1. Logistic regression on words learns nothing, and the sum of a score
    of the first sentence and a score of the second is right on at most three of
    four pairs. A model must compare the two words.

    Args:
        num_examples: Integer, number of pairs. If it is not a multiple of four,
            the last four are incomplete.
        seed: Non-negative integer. The same seed makes the same pairs.
        num_topics: Integer from 2 to 24, number of topics.
        words_per_topic: Integer from 1 to 6, number of words for each topic.
            With 1, a repeated word determines the label.

    Returns:
        `((first, second), labels)`, shuffled: two lists of strings and an int32
        array, 0 for different topics, 1 for the same. Both labels are equally
        frequent; in an odd number, one more is 0.

    Raises:
        ValueError: If an argument is out of range or not an integer.

    Example:

    ```python
    pairs, labels = generated_pairs(4000, seed=1)
    test_pairs, test_labels = generated_pairs(1000, seed=2)
    ```
    """
    check_integers(
        num_examples=(num_examples, 1),
        num_topics=(num_topics, 2, len(TOPICS)),
        words_per_topic=(words_per_topic, 1, len(TOPICS[0])),
    )
    rng = new_rng(seed)
    topics = [topic[:words_per_topic] for topic in TOPICS[:num_topics]]
    examples: list[tuple[str, str, int]] = []
    while len(examples) < num_examples:
        examples += _four_pairs(rng, topics)
    *sides, labels = shuffled(rng, examples[:num_examples])
    return tuple(sides), labels


def _four_pairs(rng, topics):
    """All pairs of two first and two second sentences, and labels."""
    one, two = (fill(rng, pick(rng, words.PAIR_SENTENCES)) for _ in range(2))
    chosen = rng.choice(len(topics), size=2, replace=False)
    (a, other_a), (b, other_b) = (
        rng.choice(topics[i], size=2, replace=len(topics[i]) == 1).tolist()
        for i in chosen
    )
    pairs = [(a, other_b), (a, other_a), (b, other_a), (b, other_b)]
    return [
        (one.format(topic=first), two.format(topic=second), index % 2)
        for index, (first, second) in enumerate(pairs)
    ]


def generated_entities(num_examples: int, seed: int = 0) -> tuple[Any, ...]:
    """Generates sentences of words with persons, places and organisations.

    A label is `"O"`, or, for the first word of an entity, `"B-"`, and for the
    others `"I-"`, with the kind: `"PER"`, `"LOC"`, `"ORG"`. All kinds have the
    same 40 names: "My uncle married Florence on Monday", "The train from
    Florence came on Sunday", "Florence dismissed twenty workers". The words
    around a name determine its kind. The most frequent label of each word finds
    all names, but only a third of their kinds.

    Args:
        num_examples: Integer, number of sentences.
        seed: Non-negative integer. The same seed makes the same sentences.

    Returns:
        `(sentences, labels)`: two lists of lists of strings, with a label for
        each word. `CLASS_NAMES["generated_entities"]` has all labels.

    Raises:
        ValueError: If `num_examples` is not a positive integer.

    Example:

    ```python
    sentences, labels = generated_entities(2000, seed=1)
    test_sentences, test_labels = generated_entities(500, seed=2)
    ```
    """
    check_integers(num_examples=(num_examples, 1))
    rng = new_rng(seed)
    sentences, labels = [], []
    for _ in range(num_examples):
        tokens, tags = _clause(rng)
        if rng.integers(2):
            joiner = pick(rng, words.JOINERS).split()
            more_tokens, more_tags = _clause(rng)
            tokens += joiner + more_tokens
            tags += ["O"] * len(joiner) + more_tags
        tokens[0] = tokens[0][0].upper() + tokens[0][1:]
        sentences.append([*tokens, "."])
        labels.append([*tags, "O"])
    return sentences, labels


def _clause(rng):
    """The words of a clause, and their labels."""
    kind = pick(rng, [*ENTITIES])
    forms, nouns, sentences = ENTITIES[kind]
    tokens, labels = [], []
    sentence = fill(rng, pick(rng, sentences))
    for word in sentence.replace("{word}", pick(rng, nouns)).split():
        if word == "{entity}":
            form = pick(rng, forms).split()
            names = words.ENTITY_NAMES
            tokens += [x.format(name=pick(rng, names)) for x in form]
            labels += [f"B-{kind}"] + [f"I-{kind}"] * (len(form) - 1)
        else:
            tokens.append(word)
            labels.append("O")
    return tokens, labels
