import re
from collections import Counter
from itertools import pairwise

import pytest

from keras_synth import datasets
from keras_synth.datasets import words as word_lists

pytestmark = pytest.mark.once  # nothing here depends on the backend


def words(text):
    return re.findall(r"\w+", text.lower())


# Generated reviews


@pytest.mark.parametrize("num_sentences", [1, 2, 6])
def test_hard_reviews_come_in_pairs_of_equal_words(num_sentences):
    texts, labels = datasets.generated_reviews(
        300,
        hard_fraction=1,
        min_sentences=num_sentences,
        max_sentences=num_sentences,
    )
    labels_of = {}
    for text, label in zip(texts, labels.tolist(), strict=True):
        labels_of.setdefault(tuple(sorted(words(text))), []).append(label)
    for pairs in labels_of.values():
        assert 2 * sum(pairs) == len(pairs)
    assert len(labels_of) > 140


def test_reviews_have_the_promised_length():
    texts, _ = datasets.generated_reviews(1000)
    lengths = [len(words(text)) for text in texts]
    assert 20 <= min(lengths) <= max(lengths) <= 70
    assert "{" not in " ".join(texts)
    texts, _ = datasets.generated_reviews(100, min_sentences=2, max_sentences=4)
    assert {text.count(".") for text in texts} == {2, 3, 4}


def test_the_word_before_each_adjective_decides_every_review():
    denying = set(words("seemed from expected began than not time looked"))
    negative, positive = word_lists.OPINIONS
    signs = dict.fromkeys(positive, 1) | dict.fromkeys(negative, -1)
    texts, labels = datasets.generated_reviews(2000)
    for text, label in zip(texts, labels, strict=True):
        score = sum(
            signs.get(token, 0)
            for before, token in pairwise(words(text))
            if before not in denying
        )
        assert score != 0
        assert (score > 0) == label


# Generated pairs

TOPIC_OF = {
    word: number
    for number, topic in enumerate(word_lists.TOPICS)
    for word in topic
}


def topic_words(sentences):
    found = [[w for w in words(s) if w in TOPIC_OF] for s in sentences]
    assert all(len(one) == 1 for one in found)
    return [one for (one,) in found]


@pytest.mark.parametrize("words_per_topic", [1, 2, 6])
def test_the_label_says_whether_both_topics_are_the_same(words_per_topic):
    (first, second), labels = datasets.generated_pairs(
        101, words_per_topic=words_per_topic
    )
    for a, b, label in zip(
        topic_words(first), topic_words(second), labels, strict=True
    ):
        assert (TOPIC_OF[a] == TOPIC_OF[b]) == label
        assert (a == b) == (label and words_per_topic == 1)


@pytest.mark.parametrize("words_per_topic", [1, 3])
def test_neither_sentence_nor_the_words_of_both_determine_the_label(
    words_per_topic,
):
    (first, second), labels = datasets.generated_pairs(
        400, words_per_topic=words_per_topic
    )
    pairs = list(zip(first, second, labels.tolist(), strict=True))
    features = [
        lambda a, b: [a],
        lambda a, b: [b],
        lambda a, b: words(a + " " + b),
        lambda a, b: pairwise([*words(a), None, *words(b)]),
    ]
    if words_per_topic > 1:  # nor the words that are there at all
        features.append(lambda a, b: {*words(a + " " + b)})
    for feature in features:
        counts = Counter(), Counter()
        for a, b, label in pairs:
            counts[label].update(feature(a, b))
        assert counts[0] == counts[1]


def test_topics_are_as_many_and_as_rich_as_asked_for():
    (first, _), _ = datasets.generated_pairs(
        2000, num_topics=5, words_per_topic=4
    )
    lengths = {len(words(text)) for text in first}
    assert {6, 13} <= lengths <= {*range(6, 14)}
    used = set(topic_words(first))
    assert used == {w for topic in word_lists.TOPICS[:5] for w in topic[:4]}


# Generated entities


def test_every_word_has_a_label_and_entities_begin_with_b():
    sentences, labels = datasets.generated_entities(500)
    assert len(sentences) == len(labels) == 500
    found = set()
    for words, tags in zip(sentences, labels, strict=True):
        assert len(words) == len(tags) <= 40
        assert words[0][0].isupper()
        assert words[-1] == "."
        assert not {"{", "}"} & {*"".join(words)}
        for before, tag in pairwise(["O", *tags]):
            if tag.startswith("I-"):
                assert before[1:] == tag[1:]
        found |= {*tags}
    assert found == {*datasets.CLASS_NAMES["generated_entities"]}


def test_a_name_does_not_determine_its_label():
    sentences, labels = datasets.generated_entities(4000)
    seen = {}
    for words, tags in zip(sentences, labels, strict=True):
        for word, tag in zip(words, tags, strict=True):
            seen.setdefault(word, Counter())[tag] += 1
    for name in word_lists.ENTITY_NAMES:
        assert {"B-PER", "B-LOC", "B-ORG"} <= {*seen[name]}
        assert max(seen[name].values()) < 0.5 * seen[name].total()
    right = sum(max(tags.values()) for tags in seen.values())
    total = sum(tags.total() for tags in seen.values())
    assert 0.88 < right / total < 0.93
    kinds = [*word_lists.ENTITIES.values()]
    assert len({word for _, nouns, _ in kinds for word in nouns}) == 18
