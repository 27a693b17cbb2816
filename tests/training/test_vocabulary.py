"""Words and their numbers."""

import pytest

from keras_synth.vocabulary import ByteVocabulary, WordVocabulary

pytestmark = pytest.mark.once  # nothing here depends on the backend


def test_words_are_numbered_by_frequency_then_alphabet():
    vocabulary = WordVocabulary.from_text("c b a b c <unk> c".split())
    assert vocabulary.words == ["c", "b", "<unk>", "a"]
    ids = vocabulary.encode(["a", "new", "c"])
    assert ids.dtype == "int32"
    assert ids.tolist() == [3, 2, 0]
    assert vocabulary.decode(ids) == ["a", "<unk>", "c"]


def test_a_text_without_unknown_words_has_a_number_for_them():
    assert WordVocabulary.from_text(["a"]).words == ["a", "<unk>"]
    with pytest.raises(ValueError, match="must hold the unknown word"):
        WordVocabulary(["a"])


def test_both_vocabularies_give_texts_to_read():
    words = WordVocabulary.from_text("a b <eos>".split())
    assert len(words) == 4
    assert words.to_text(words.encode("a <eos> b".split())) == "a \n b"
    characters = ByteVocabulary()
    assert len(characters) == 256
    ids = characters.encode("schön".encode())
    assert ids.tolist() == [115, 99, 104, 195, 182, 110]
    assert characters.decode(ids) == "schön".encode()
    assert characters.to_text(ids[:4]) == "sch\ufffd"
