"""Tokenizers learn from texts, and give back what they were given."""

import numpy as np
import pytest

from keras_synth import models
from keras_synth.datasets import generated_reviews, generated_translations

pytestmark = pytest.mark.once  # nothing here depends on the backend


def test_byte_pairs_give_texts_back_to_the_letter(tmp_path):
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
    "kind", [models.SynthesizerTokenizer, models.SynthesizerBytePairTokenizer]
)
def test_what_is_no_list_of_texts_is_refused(kind):
    for texts in ([], "a text"):
        with pytest.raises(ValueError, match="list of strings"):
            kind.from_texts(texts, 300)
    with pytest.raises(ValueError, match="vocabulary_size"):
        kind.from_texts(["a text"], 0)


def test_vocabularies_without_special_tokens_are_refused():
    with pytest.raises(ValueError, match=r"without \[CLS\], \[SEP\]"):
        models.SynthesizerTokenizer(["[PAD]", "[UNK]", "[MASK]", "a"])
    with pytest.raises(ValueError, match=r"without <pad>, <s>, </s>, <mask>"):
        models.SynthesizerBytePairTokenizer({"a": 0, "b": 1}, ["a b"])


@pytest.mark.parametrize(
    "kind", [models.SynthesizerTokenizer, models.SynthesizerBytePairTokenizer]
)
def test_texts_without_a_word_are_refused(kind):
    for texts in (["", ""], [" ", "\n"], [1, 2]):
        with pytest.raises(ValueError, match="one of them with a word"):
            kind.from_texts(texts, 300)
    with pytest.raises(ValueError, match=r"texts\[1\] .*lone surrogate"):
        kind.from_texts(["a text", "\ud800"], 300)


def test_a_byte_pair_vocabulary_holds_all_bytes(capfd):
    learn = models.SynthesizerBytePairTokenizer.from_texts
    for size in (1, 260):
        with pytest.raises(ValueError, match=f"at least 261.*={size}$"):
            learn(["a text"], size)
    with pytest.raises(ValueError, match="at least one merge rule"):
        learn(["a"], 300)
    assert capfd.readouterr() == ("", "")
    assert learn(["a text"], 261).vocabulary_size() == 261


def test_arrays_and_columns_of_texts_are_tokenized():
    pandas = pytest.importorskip("pandas")
    texts = ["the film", "a film"]
    for kind in (
        models.SynthesizerTokenizer,
        models.SynthesizerBytePairTokenizer,
    ):
        tokenizer = kind.from_texts(pandas.Series(texts), 300)
        expected = tokenizer(texts)
        for held in (np.array(texts), pandas.Series(texts)):
            assert tokenizer(held) == expected
        assert tokenizer(["", ""]) == [[], []]
        with pytest.raises(ValueError, match=r"inputs\[1\] .*lone surrogate"):
            tokenizer(["the", "\ud800"])
