"""Tokenizers learn from texts, and restore texts."""

import numpy as np
import pytest

from keras_synth import models
from keras_synth.datasets import generated_reviews, generated_translations

pytestmark = pytest.mark.once  # nothing here depends on the backend


def test_byte_pairs_restore_texts_exactly(tmp_path):
    sources, targets = generated_translations(300)
    tokenizer = models.SynthesizerBytePairTokenizer.from_texts(
        sources + targets, 400
    )
    assert 300 < tokenizer.vocabulary_size() <= 400
    texts = [*targets[:5], "Ein T-Shirt, „ja!“  zwei\n", "猫"]
    assert [tokenizer.detokenize(tokenizer(x)) for x in texts] == texts
    # Learned: fewer tokens than bytes.
    assert len(tokenizer(targets[0])) < 0.7 * len(targets[0])
    preprocessor = models.SynthesizerCausalLMPreprocessor(tokenizer, 16)
    for column in (np.array(texts), [x.encode() for x in texts]):
        assert tokenizer(column) == tokenizer(texts)
    features, labels, _ = preprocessor(targets[:2])
    assert features["token_ids"][0][0] == tokenizer.start_token_id
    assert labels.shape == (2, 16)


def test_word_pieces_are_learned_from_texts():
    texts, _ = generated_reviews(200)
    tokenizer = models.SynthesizerTokenizer.from_texts(texts, 300)
    assert 100 < tokenizer.vocabulary_size() < 400
    assert tokenizer.detokenize(tokenizer("the film")) == "the film"
    assert tokenizer.pad_token_id == 0


@pytest.mark.parametrize(
    "kind",
    [
        models.SynthesizerTokenizer,
        models.SynthesizerBytePairTokenizer,
        models.SynthesizerWordTokenizer,
    ],
)
def test_texts_without_a_word_are_errors(kind):
    with pytest.raises(ValueError, match=r"^texts\[1\] must be a text.*None$"):
        kind.from_texts(["a text", None], 300)
    with pytest.raises(ValueError, match="single example into a list"):
        kind.from_texts("a text", 300)
    for texts in ([], ["", ""], [" ", "\n"]):
        with pytest.raises(ValueError, match="one of them with a word"):
            kind.from_texts(texts, 300)
    for size in (0, 5):
        with pytest.raises(ValueError, match=f"vocabulary_size.*{size}$"):
            kind.from_texts(["a text"], size)


def test_vocabularies_without_special_tokens_are_errors():
    with pytest.raises(ValueError, match=r"without \[CLS\], \[SEP\]"):
        models.SynthesizerTokenizer(["[PAD]", "[UNK]", "[MASK]", "a"])
    with pytest.raises(ValueError, match=r"without <pad>, <s>, </s>, <mask>"):
        models.SynthesizerBytePairTokenizer({"a": 0, "b": 1}, ["a b"])


def test_a_byte_pair_vocabulary_contains_all_bytes(capfd):
    learn = models.SynthesizerBytePairTokenizer.from_texts
    with pytest.raises(ValueError, match="must be at least 261"):
        learn(["a text"], 260)
    with pytest.raises(ValueError, match="at least one merge rule"):
        learn(["a"], 300)
    assert capfd.readouterr() == ("", "")
    assert learn(["a text"], 261).vocabulary_size() == 261


def test_a_vocabulary_is_learned_from_a_column():
    pandas = pytest.importorskip("pandas")
    texts = ["the film", "a film"]
    for kind in (
        models.SynthesizerTokenizer,
        models.SynthesizerBytePairTokenizer,
    ):
        tokenizer = kind.from_texts(pandas.Series(texts), 300)
        expected = tokenizer(texts)
        assert kind.from_texts(texts, 300)(texts) == expected
        assert tokenizer(["", ""]) == [[], []]
        with pytest.raises(ValueError, match=r"column.*table\['body'\]"):
            kind.from_texts(pandas.DataFrame({"body": texts}), 300)


# Words and bytes

EXPRESSIONS = ["[MAX 2 [SM 6 7 ] ]", "[SM 2 2 ]"]


def test_words_are_whole_and_the_frequent_ones_first():
    learn = models.SynthesizerWordTokenizer.from_texts
    tokenizer = learn(EXPRESSIONS)
    vocabulary = tokenizer.get_vocabulary()
    assert vocabulary[:5] == ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    assert vocabulary[5:8] == ["2", "]", "[SM"]
    assert {*vocabulary[8:]} == {"[MAX", "6", "7"}
    assert [tokenizer.detokenize(tokenizer(x)) for x in EXPRESSIONS] == (
        EXPRESSIONS
    )
    assert tokenizer(["[SM", "[SM 2", ""]) == [[7], [7, 5], []]
    # Neither a part of a word nor a word in other letters is in it.
    unknown = tokenizer.token_to_id("[UNK]")
    assert tokenizer("22 [sm [SM] ##2").tolist() == [unknown] * 4
    assert learn(EXPRESSIONS, 7).get_vocabulary() == vocabulary[:7]
    assert learn(["[CLS] a"]).get_vocabulary() == [*vocabulary[:5], "a"]


def test_words_that_look_like_pieces_stay_words():
    tokenizer = models.SynthesizerWordTokenizer.from_texts(["a ##b É"])
    assert tokenizer.detokenize(tokenizer("a ##b É")) == "a ##b É"
    assert tokenizer("a##b").tolist() == [tokenizer.token_to_id("[UNK]")]


def test_options_that_would_split_words_are_errors():
    words = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", "a"]
    for option, given in (("split", True), ("lowercase", True)):
        with pytest.raises(ValueError, match=f"Leave `{option}` out.*{given}"):
            models.SynthesizerWordTokenizer(words, **{option: given})


def test_bytes_are_their_values():
    tokenizer = models.SynthesizerByteTokenizer()
    assert tokenizer.vocabulary_size() == 256
    for text in ("To be", "É猫\n"):
        assert tokenizer(text).tolist() == [*text.encode()]
        assert tokenizer.detokenize(tokenizer(text)) == text
    assert tokenizer(["ab", ""]) == [[97, 98], []]
    lower = models.SynthesizerByteTokenizer(lowercase=True)
    assert lower("AB").tolist() == [97, 98]


def test_words_end_at_the_same_spaces_in_graphs():
    tf = pytest.importorskip("tensorflow")
    texts = ["a\u00a0b c\td", "\u2003a b"]
    tokenizer = models.SynthesizerWordTokenizer.from_texts(texts)
    assert "a\u00a0b" in tokenizer.get_vocabulary()
    given = tf.data.Dataset.from_tensor_slices(texts).map(tokenizer)
    for text, ids in zip(texts, given.as_numpy_iterator(), strict=True):
        assert [*map(int, tokenizer(text))] == ids.tolist()


@pytest.mark.parametrize("kind", ["words", "bytes"])
@pytest.mark.parametrize("keep", ["start", "end"])
def test_words_and_bytes_are_packed_alike_in_graphs(kind, keep):
    tf = pytest.importorskip("tensorflow")
    tokenizer = models.SynthesizerByteTokenizer()
    if kind == "words":
        tokenizer = models.SynthesizerWordTokenizer.from_texts(EXPRESSIONS)
    packed = models.SynthesizerTextClassifierPreprocessor(
        tokenizer, 7, keep=keep
    )
    expected = []
    for text in EXPRESSIONS:
        ids = [*map(int, tokenizer(text))]
        ids = ids[:5] if keep == "start" else ids[-5:]
        ids = [tokenizer.start_token_id, *ids, tokenizer.end_token_id]
        expected.append(ids + [tokenizer.pad_token_id] * (7 - len(ids)))
    here = packed(EXPRESSIONS)["token_ids"]
    assert np.asarray(here.tolist()).tolist() == expected
    assert [*packed(EXPRESSIONS[0])["token_ids"]] == expected[0]
    (batch,) = (
        tf.data.Dataset.from_tensor_slices(EXPRESSIONS)
        .batch(2)
        .map(packed)
        .as_numpy_iterator()
    )
    assert batch["token_ids"].tolist() == expected
    real = np.array(expected) != tokenizer.pad_token_id
    assert batch["padding_mask"].tolist() == real.tolist()
