import gzip
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_synth import datasets

pytestmark = pytest.mark.once  # nothing here depends on the backend


def write(path, content):
    """Writes text or bytes, zipped if the name ends in ".gz"."""
    content = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        gzip.compress(content) if path.suffix == ".gz" else content
    )
    return path


# Any text


@settings(max_examples=60, deadline=None, database=None)
@given(
    st.text(st.characters(codec="utf-8")).filter(str.strip),
    st.sampled_from(["t.txt", "t.txt.gz"]),
)
def test_a_text_is_kept_as_it_is(tmp_path_factory, text, name):
    path = tmp_path_factory.getbasetemp() / "texts" / name
    assert datasets.load_text(write(path, "\ufeff" + text)) == text
    assert datasets.load_text(str(path)) == text


@pytest.mark.parametrize("content", ["", "\ufeff", " \r\n\n"])
@pytest.mark.parametrize("name", ["t.txt", "t.txt.gz"])
def test_a_text_without_text_is_refused(tmp_path, content, name):
    path = write(tmp_path / name, content)
    length = len(content.lstrip("\ufeff"))
    message = re.escape(f"{path}: expected a text.") + f".*Received: {length} "
    with pytest.raises(ValueError, match=message):
        datasets.load_text(path)


def test_a_text_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="Check the path"):
        datasets.load_text(tmp_path / "missing.txt")
    with pytest.raises(ValueError, match="is a folder, but expected"):
        datasets.load_text(tmp_path)
    path = write(
        tmp_path / "t.txt", "one\ntwo\x85 drei\nfünf".encode("latin-1")
    )
    with pytest.raises(ValueError, match="line 2: the text is not UTF-8"):
        datasets.load_text(path)
    path = write(tmp_path / "t.txt", gzip.compress(b"text " * 99)[:-9])
    with pytest.raises(ValueError, match="cannot be read as a gzip file"):
        datasets.load_text(path)


# WikiText-2

WIKITEXT = {
    "wiki.train.tokens": " \n = Title = \n \n An <unk> of 1 @.@ 5\u2028\x85 . ",
    "wiki.valid.tokens": "no  end of\xa0line",
    "wiki.test.tokens": " one \r\n\r\n two \r\n",
}
WIKITEXT_TOKENS = (
    "<eos> = Title = <eos> <eos> An <unk> of 1 @.@ 5\u2028\x85 . <eos>",
    "no end of\xa0line <eos>",
    "one <eos> <eos> two <eos>",
)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("folder", [".", "wikitext-2"])
def test_each_end_of_a_line_is_a_token(tmp_path, suffix, folder):
    for name, content in WIKITEXT.items():
        write(tmp_path / folder / f"{name}{suffix}", content)
    received = datasets.load_wikitext2(str(tmp_path))
    assert received == tuple(tokens.split(" ") for tokens in WIKITEXT_TOKENS)
    assert [type(tokens) for tokens in received] == [list] * 3


@pytest.mark.parametrize("missing", WIKITEXT)
def test_a_missing_part_of_wikitext_is_named(tmp_path, missing):
    for name in WIKITEXT.keys() - {missing}:
        write(tmp_path / name, WIKITEXT[name])
    with pytest.raises(FileNotFoundError, match=f"no file {missing} or"):
        datasets.load_wikitext2(tmp_path)
    write(tmp_path / missing, "\n")
    with pytest.raises(ValueError, match=f"{missing}: expected a text"):
        datasets.load_wikitext2(tmp_path)


def test_the_real_wikitext_has_the_published_counts(data):
    splits = datasets.load_wikitext2(data / "wikitext-2")
    assert list(map(len, splits)) == [2_088_628, 217_646, 245_569]
    assert len(set().union(*splits)) == 33_278
    lines = [tokens.count("<eos>") for tokens in splits]
    assert lines == [36_718, 3_760, 4_358]


# Tiny Shakespeare


@pytest.mark.parametrize("name", ["input.txt", "input.txt.gz"])
@pytest.mark.parametrize("length", [20, 21, 99, 1000])
def test_a_text_is_split_by_position(tmp_path, name, length):
    text = "".join(chr(0x100 + i) for i in range(length - 1)) + "\n"
    path = write(tmp_path / name, text)
    parts = datasets.load_tinyshakespeare(tmp_path)
    assert "".join(parts) == text
    for part, share in zip(parts, (0.9, 0.05, 0.05), strict=True):
        assert abs(len(part) - share * length) <= 1
    assert datasets.load_tinyshakespeare(str(path)) == parts


@pytest.mark.parametrize("text", ["a", "brief"])
def test_a_text_too_short_to_split_is_refused(tmp_path, text):
    path = write(tmp_path / "other.txt", text)
    message = f"long enough to split .* Received: {len(text)} characters"
    with pytest.raises(ValueError, match=message):
        datasets.load_tinyshakespeare(path)


def test_a_folder_without_shakespeare_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file input\.txt or"):
        datasets.load_tinyshakespeare(tmp_path)
    with pytest.raises(FileNotFoundError, match="Check the path"):
        datasets.load_tinyshakespeare(tmp_path / "missing")


def test_the_real_shakespeare_is_complete(data):
    train, validation, test = datasets.load_tinyshakespeare(
        data / "tinyshakespeare"
    )
    assert len(train) == 1_003_854
    assert len(validation) == len(test) == 55_770
    assert len(set(train + validation + test)) == 65
    assert train.startswith("First Citizen:\nBefore we proceed")


# Texts in folders


def test_a_folder_of_texts_is_read_in_order(tmp_path):
    for name, text in (("b.txt", "b"), ("a/z.txt.gz", "az"), (".git/x", "-")):
        write(tmp_path / name, text)
    assert datasets.load_texts(tmp_path) == ["az", "b"]
    assert datasets.load_texts(str(tmp_path / "b.txt")) == ["b"]


def test_a_folder_without_texts_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"a folder with text files.*no file"):
        datasets.load_texts(tmp_path)
    write(tmp_path / "empty.txt", " ")
    with pytest.raises(ValueError, match="expected a text"):
        datasets.load_texts(tmp_path)
