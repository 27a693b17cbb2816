"""Movie reviews from a generator, half of them beyond a bag of words."""

from typing import Any

import numpy as np

from keras_synth._backend.checks import check_positive
from keras_synth.datasets.words import (
    HARD_SENTENCES,
    NEUTRAL_SENTENCES,
    OPINION_SENTENCES,
    OPINIONS,
    fill,
    pick,
)


def generated_reviews(
    num_examples: int,
    seed: int = 0,
    hard_fraction: float = 0.5,
    min_sentences: int = 3,
    max_sentences: int = 6,
) -> tuple[Any, ...]:
    """Writes labelled, English-like movie reviews of about 20 to 60 words.

    An opinion is an adjective that praises or blames, as in "The plot was
    truly dull from start to finish". All other words are neutral. There are
    two kinds of review:

    - *Easy*: about two thirds of the sentences hold an opinion, and the
      majority decides. A minority of the opposite sign may be among them.
    - *Hard*: one sentence denies one opinion and asserts the opposite one,
      by negation ("The plot was not dull but moving") or by order ("At first
      the plot seemed dull, in the end it was moving"). The assertion decides;
      all other sentences are neutral.

    Hard reviews are made in pairs that differ only in which of their two
    adjectives is the denied one. Both have the same words the same number of
    times and opposite labels, so anything computed from word counts is right
    on exactly one of the two. With half of the reviews hard, a bag of words
    reaches at most 75 % accuracy, whereas the word before each adjective
    suffices for 100 %.

    Args:
        num_examples: Integer, number of reviews.
        seed: Integer, not negative. The same seed gives the same reviews.
        hard_fraction: Float in [0, 1], share of hard reviews, rounded to whole
            pairs.
        min_sentences: Integer, fewest sentences of a review.
        max_sentences: Integer, most sentences of a review.

    Returns:
        `(texts, labels)`, shuffled: a list of strings and an int32 array, 0
        negative, 1 positive. Both labels are equally frequent; of an odd
        number, one more is negative.

    Raises:
        ValueError: An argument is out of range, or a count no integer.

    Example:

    ```python
    texts, labels = generated_reviews(2000, seed=1)
    test_texts, test_labels = generated_reviews(500, seed=2)
    ```
    """
    check_positive("num_examples", num_examples)
    check_positive("min_sentences", min_sentences)
    check_positive("max_sentences", max_sentences)
    if max_sentences < min_sentences:
        raise ValueError(
            "max_sentences must be at least min_sentences. Received: "
            f"{max_sentences} and {min_sentences}"
        )
    if not 0 <= hard_fraction <= 1:
        raise ValueError(
            f"hard_fraction must be from 0 to 1. Received: {hard_fraction!r}"
        )
    rng = np.random.default_rng(seed)
    num_pairs = min(round(num_examples * hard_fraction / 2), num_examples // 2)
    examples = []  # (text, label)
    for index in range(num_examples - num_pairs):
        num_sentences = rng.integers(min_sentences, max_sentences + 1)
        if index < num_pairs:
            positive, negative = _hard_pair(rng, num_sentences)
            examples += [(negative, 0), (positive, 1)]
        else:
            label = (index - num_pairs) % 2
            examples.append((_easy_review(rng, num_sentences, label), label))
    examples = [examples[i] for i in rng.permutation(num_examples)]
    texts, labels = zip(*examples, strict=True)
    return list(texts), np.array(labels, dtype="int32")


def _neutral_sentences(rng, count):
    return [fill(rng, pick(rng, NEUTRAL_SENTENCES)) for _ in range(count)]


def _review(sentences, order):
    return " ".join(f"{sentences[i]}." for i in order)


def _hard_pair(rng, num_sentences):
    """Returns a positive and a negative review made of the same words."""
    others = _neutral_sentences(rng, num_sentences - 1)
    sentence = fill(rng, pick(rng, HARD_SENTENCES))
    bad, good = (pick(rng, words) for words in OPINIONS)
    order = rng.permutation(num_sentences)
    praise = sentence.format(denied=bad, asserted=good)
    blame = sentence.format(denied=good, asserted=bad)
    return _review([praise, *others], order), _review([blame, *others], order)


def _easy_review(rng, num_sentences, label):
    """Returns a review in which most opinions agree with the label."""
    num_opinions = num_sentences - num_sentences // 3
    num_opposite = rng.integers((num_opinions - 1) // 2 + 1)
    sentences = _neutral_sentences(rng, num_sentences - num_opinions)
    for i in range(num_opinions):
        sign = label if i >= num_opposite else 1 - label
        opinion = pick(rng, OPINIONS[sign])
        sentence = fill(rng, pick(rng, OPINION_SENTENCES))
        sentences.append(sentence.format(opinion=opinion))
    return _review(sentences, rng.permutation(num_sentences))
