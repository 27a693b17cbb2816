"""Pairs of sentences from a generator, beyond all that adds them up."""

from typing import Any

import numpy as np

from keras_synth._backend.checks import check_positive
from keras_synth.datasets.words import PAIR_SENTENCES, TOPICS, fill, pick


def generated_pairs(
    num_examples: int,
    seed: int = 0,
    num_topics: int = 12,
    words_per_topic: int = 2,
) -> tuple[Any, ...]:
    """Writes pairs of sentences and asks if both are about the same thing.

    Each sentence of 6 to 13 words names one topic by one of its words, as in
    "On Monday a quiet stranger asked me about the violin" and "I dreamt of the
    trumpet again", here twice a musical instrument. All other words are
    drawn from the same list whatever the topic. The two sentences never share
    the word of their topic, unless each topic has only one.

    Pairs are made by fours: two sentences about a topic, and the same two with
    words of another topic, each first one with each second one. So

    - each sentence appears as often with label 0 as with label 1,
    - so does each word in the pair, and logistic regression on the words, or
      on any other features of the two sentences, learns nothing: its loss is
      smallest where all weights are zero,
    - any sum of a score of the first sentence and a score of the second is
      right on at most three of the four.

    What remains is to compare the two words.

    Args:
        num_examples: Integer, number of pairs. If it is no multiple of four,
            the last four are cut short.
        seed: Integer, not negative. The same seed gives the same pairs.
        num_topics: Integer from 2 to 24, number of topics.
        words_per_topic: Integer from 1 to 6, number of words that name each of
            them. With 1, a pair of label 1 names its topic twice by the same
            word, and whoever looks for a repeated word knows the label.

    Returns:
        `((first, second), labels)`, shuffled: two lists of strings and an
        int32 array, 0 different topics, 1 the same. Both labels are equally
        frequent; of an odd number, one more is 0.

    Raises:
        ValueError: An argument is out of range, or no integer.

    Example:

    ```python
    pairs, labels = generated_pairs(4000, seed=1)
    test_pairs, test_labels = generated_pairs(1000, seed=2)
    ```
    """
    check_positive("num_examples", num_examples)
    _check_range("num_topics", num_topics, 2, len(TOPICS))
    _check_range("words_per_topic", words_per_topic, 1, len(TOPICS[0]))
    rng = np.random.default_rng(seed)
    topics = [words[:words_per_topic] for words in TOPICS[:num_topics]]
    # First sentence, second sentence, label.
    examples: list[tuple[str, str, int]] = []
    while len(examples) < num_examples:
        examples += _four_pairs(rng, topics)
    examples = [examples[i] for i in rng.permutation(num_examples)]
    first, second, labels = zip(*examples, strict=True)
    return (list(first), list(second)), np.array(labels, dtype="int32")


def _check_range(name, value, least, most):
    if not least <= check_positive(name, value) <= most:
        raise ValueError(
            f"{name} must be from {least} to {most}. Received: {value}"
        )


def _four_pairs(rng, topics):
    """Returns each of two first sentences with each of two second ones."""
    sentences = [fill(rng, pick(rng, PAIR_SENTENCES)) for _ in range(2)]
    chosen = rng.choice(len(topics), size=2, replace=False)
    (a, other_a), (b, other_b) = (_two_words(rng, topics[i]) for i in chosen)
    pairs = [(a, other_b), (a, other_a), (b, other_a), (b, other_b)]
    return [
        (
            *(s.format(topic=w) for s, w in zip(sentences, pair, strict=True)),
            index % 2,
        )
        for index, pair in enumerate(pairs)
    ]


def _two_words(rng, words):
    return rng.choice(words, size=2, replace=len(words) == 1).tolist()
