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


def assert_pairs(received, sources, targets):
    """Tells tuples from lists, too."""
    assert received == (sources, targets)
    assert [type(side) for side in received] == [list, list]


# Any translations


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("end", [True, False])
def test_two_files_are_read_line_by_line(tmp_path, suffix, newline, end):
    english = ["Two dogs.", " A  cat, a fox. ", "\ufeffWhy?"]
    german = ["\tZwei Hunde.", "Katz und Fuchs.", "Wieso?\x85"]
    files = [
        write(
            tmp_path / f"text.{language}{suffix}",
            newline.join(lines) + newline * end,
        )
        for language, lines in (("en", english), ("de", german))
    ]
    expected = (
        ["Two dogs.", "A  cat, a fox.", "\ufeffWhy?"],
        ["Zwei Hunde.", "Katz und Fuchs.", "Wieso?"],
    )
    assert_pairs(datasets.load_translations(*files), *expected)
    assert_pairs(datasets.load_translations(*map(str, files)), *expected)


@pytest.mark.parametrize("name", ["deu.txt", "deu.tsv.gz"])
def test_one_file_has_both_in_columns_and_more_of_them_are_ignored(
    tmp_path, name
):
    rows = 'Go.\tGeh.\nHi "Tom"! \t Hallo\tCC-BY 2.0\tmore\r\nNo.\tNein.\t\n'
    path = write(tmp_path / name, rows)
    assert_pairs(
        datasets.load_translations(path),
        ["Go.", 'Hi "Tom"!', "No."],
        ["Geh.", "Hallo", "Nein."],
    )


def test_a_byte_order_mark_is_no_part_of_the_first_sentence(tmp_path):
    path = write(tmp_path / "t.tsv", "\ufeffGo.\tGeh.\n")
    assert_pairs(datasets.load_translations(path), ["Go."], ["Geh."])


SENTENCES = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\n\t"))
    # Spaces at the ends are lost, and a byte-order mark that starts a file.
    .map(lambda text: text.strip().strip("\ufeff").strip())
    .filter(bool),
    min_size=1,
)
SEPARATORS = "\x0b \x0c \x1c \x1d \x1e \x85 \u2028 \u2029 \r".split(" ")


@settings(max_examples=80, deadline=None, database=None)
@given(SENTENCES, st.sampled_from(SEPARATORS), st.booleans(), st.booleans())
def test_nothing_but_a_newline_ends_a_line(
    tmp_path_factory, sentences, separator, zipped, windows
):
    sources = [f"{separator.join('ab')} {s} c" for s in sentences]
    targets = [f"d{separator}{separator}{s}{separator}e" for s in sentences]
    folder = tmp_path_factory.getbasetemp() / "lines"
    suffix = ".gz" if zipped else ""
    newline = "\r\n" if windows else "\n"
    one, two, both = (
        write(folder / f"{name}{suffix}", newline.join(lines) + newline)
        for name, lines in (
            ("one", sources),
            ("two", targets),
            ("both", map("\t".join, zip(sources, targets, strict=True))),
        )
    )
    assert_pairs(datasets.load_translations(one, two), sources, targets)
    assert_pairs(datasets.load_translations(both), sources, targets)


@pytest.mark.parametrize("skip_empty", [False, True])
@pytest.mark.parametrize("end", ["", "\n"])
def test_files_of_different_length_are_refused(tmp_path, skip_empty, end):
    one = write(tmp_path / "a.en", "one\ntwo\n\nfour" + end)
    two = write(tmp_path / "a.de", "eins\nzwei\n\nvier\nfünf" + end)
    for files, lines in (((one, two), "4 and 5"), ((two, one), "5 and 4")):
        with pytest.raises(ValueError) as error:
            datasets.load_translations(*files, skip_empty=skip_empty)
        message = str(error.value)
        assert message.startswith(f"{files[0]} and {files[1]} must have")
        assert message.endswith(f"Received: {lines} lines")


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(
    ("source", "target", "place"),
    [
        ("one\n \ntwo\n\n", "eins\nx\nzwei\nx\n", "en, line 2"),
        ("one\nx\ntwo\n\n", "eins\r\n\r\nzwei\r\nx\r\n", "de, line 2"),
        ("one\n\u2028\ntwo\n\n", "eins\n\nzwei\n\n", "en, line 2"),
    ],
)
def test_empty_lines_are_named_counted_and_skipped_on_demand(
    tmp_path, source, target, place, suffix
):
    files = [
        write(tmp_path / f"en{suffix}", source),
        write(tmp_path / f"de{suffix}", target),
    ]
    place = place.replace(",", suffix + ",")
    with pytest.raises(ValueError, match="pass skip_empty=True") as error:
        datasets.load_translations(*files)
    assert str(error.value).startswith(f"{tmp_path / place}: expected a")
    assert str(error.value).endswith("Received: 2 such pairs of 4")
    with pytest.warns(UserWarning, match="left out 2 of 4 rows"):
        received = datasets.load_translations(*files, skip_empty=True)
    assert_pairs(received, ["one", "two"], ["eins", "zwei"])


def test_empty_columns_are_empty_lines(tmp_path):
    path = write(tmp_path / "t.tsv", "a\tb\n\nc\t\n\td\ne\tf\n\n")
    with pytest.raises(ValueError, match=r"t\.tsv, line 2: .* 4 such pairs of"):
        datasets.load_translations(path)
    with pytest.warns(UserWarning, match="left out 4 of 6 rows"):
        received = datasets.load_translations(path, skip_empty=True)
    assert_pairs(received, ["a", "e"], ["b", "f"])


@pytest.mark.parametrize("skip_empty", [False, True])
def test_a_line_without_a_tab_is_named(tmp_path, skip_empty):
    path = write(tmp_path / "t.txt", "a\tb\n\nc d\ne\tf\n")
    message = r"t\.txt, line 3: .* or pass target= .*Received: 'c d'$"
    with pytest.raises(ValueError, match=message):
        datasets.load_translations(path, skip_empty=skip_empty)


@pytest.mark.parametrize("content", ["", "\ufeff", "\n\n", " \r\n"])
@pytest.mark.parametrize("name", ["t.txt", "t.txt.gz"])
def test_files_without_text_are_refused(tmp_path, content, name):
    path = write(tmp_path / name, content)
    full = write(tmp_path / "full", "a\n")
    message = re.escape(f"{path}: expected a text. ") + ".*Received: "
    for files in ((path,), (path, path), (full, path), (path, full)):
        with pytest.raises(ValueError, match=message):
            datasets.load_translations(*files, skip_empty=True)


def test_where_no_pair_is_left_there_is_nothing_to_learn(tmp_path):
    one, two = write(tmp_path / "a", "a\n\n"), write(tmp_path / "b", "\nb\n")
    with pytest.raises(ValueError, match=r"Received: 2 pairs with an empty"):
        datasets.load_translations(one, two, skip_empty=True)


@pytest.mark.parametrize("name", ["t.de", "t.de.gz"])
def test_bytes_that_are_not_utf_8_are_found(tmp_path, name):
    one = write(tmp_path / "t.en", "one\ntwo\nthree\n")
    two = write(tmp_path / name, b"eins\nzwei\x85\nf\xfcnf\n")
    message = re.escape(f"{two}, line 2: the text is not UTF-8")
    with pytest.raises(ValueError, match=message):
        datasets.load_translations(one, two)


def test_what_is_no_file_or_damaged_is_refused(tmp_path):
    one = write(tmp_path / "t.en", "one\n")
    with pytest.raises(FileNotFoundError, match="Check the path"):
        datasets.load_translations(one, tmp_path / "missing")
    with pytest.raises(ValueError, match="is a folder, but expected"):
        datasets.load_translations(tmp_path)
    one.write_bytes(gzip.compress(b"one\n" * 100)[:-9])
    with pytest.raises(ValueError, match="cannot be read as a gzip file"):
        datasets.load_translations(one)


# Multi30K


def write_multi30k(folder, languages=("en", "de", "fr"), suffix=""):
    for split in ("train", "val", "test_2016_flickr"):
        for language in languages:
            lines = f"{split} {language} 1\n{split} {language} 2\n"
            write(folder / f"{split}.{language}{suffix}", lines)
    return folder


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(
    ("arguments", "source", "target"),
    [
        ({}, "en", "de"),
        ({"source": "fr", "target": "en"}, "fr", "en"),
        ({"target": "fr"}, "en", "fr"),
    ],
)
def test_multi30k_is_read_in_any_direction(
    tmp_path, suffix, arguments, source, target
):
    splits = datasets.load_multi30k(
        str(write_multi30k(tmp_path, suffix=suffix)), **arguments
    )
    names = ("train", "val", "test_2016_flickr")
    for name, split in zip(names, splits, strict=True):
        lines = ([f"{name} {x} {i}" for i in (1, 2)] for x in (source, target))
        assert_pairs(split, *lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": "cs"}, "target must be .* de, en. Received: 'cs'"),
        ({"source": "e*"}, "source must be .* de, en. Received: 'e"),
        ({"source": None}, "source must be .* Received: None"),
        ({"target": "en"}, "different languages.* Received: 'en' twice"),
    ],
)
def test_languages_that_multi30k_lacks_are_refused(
    tmp_path, arguments, message
):
    for suffix in ("", ".gz"):
        write_multi30k(tmp_path, ("de", "en"), suffix)
    with pytest.raises(ValueError, match=message):
        datasets.load_multi30k(tmp_path, **arguments)


def test_a_missing_part_of_multi30k_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file train\.\* or"):
        datasets.load_multi30k(tmp_path)
    write_multi30k(tmp_path)
    (tmp_path / "val.de").unlink()
    with pytest.raises(FileNotFoundError, match=r"no file val\.de or"):
        datasets.load_multi30k(tmp_path)


# Tatoeba


def tatoeba(sentences=50):
    """One to three German sentences for each English one."""
    return [
        (f"Sentence {i}.", f"Satz {j} zu {i}.")
        for i in range(sentences)
        for j in range(1 + i % 3)
    ]


def write_tatoeba(path, pairs):
    return write(path, "".join(f"{a}\t{b}\n" for a, b in pairs))


def pairs_of(split):
    return list(zip(*split, strict=True))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_translations_of_a_sentence_stay_on_one_side(tmp_path, suffix):
    pairs = tatoeba()
    path = write_tatoeba(tmp_path / f"deu.txt{suffix}", [*pairs, *pairs[::4]])
    splits = datasets.load_tatoeba(tmp_path, 0.2, 0.1)
    sides = [set(sources) for sources, _ in splits]
    assert [len(side) for side in sides] == [35, 10, 5]
    assert len(set.union(*sides)) == 50
    received = [pair for split in splits for pair in pairs_of(split)]
    assert sorted(received) == sorted(pairs)
    assert received != sorted(received)
    for split in splits:
        assert_pairs(split, *map(list, split))
    assert datasets.load_tatoeba(str(path), 0.2, 0.1) == splits


def test_the_split_of_tatoeba_depends_on_the_seed_only(tmp_path):
    path = write_tatoeba(tmp_path / "fra.txt", tatoeba())
    first, again, other = (
        datasets.load_tatoeba(path, seed=seed) for seed in (3, 3, 4)
    )
    assert first == again != other


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"validation_fraction": 0}, "validation_fraction must lie between"),
        ({"test_fraction": 1.0}, "test_fraction must lie between 0 and 1"),
        (
            {"validation_fraction": 0.5, "test_fraction": 0.5},
            "validation_fraction and test_fraction must leave some",
        ),
    ],
)
def test_fractions_that_leave_nothing_are_refused(tmp_path, arguments, message):
    path = write_tatoeba(tmp_path / "deu.txt", tatoeba())
    with pytest.raises(ValueError, match=message):
        datasets.load_tatoeba(path, **arguments)


@pytest.mark.parametrize("sentences", [1, 2, 3])
def test_each_side_of_tatoeba_needs_a_sentence(tmp_path, sentences):
    path = write_tatoeba(tmp_path / "deu.txt", tatoeba(sentences))
    if sentences == 3:
        splits = datasets.load_tatoeba(path)
        assert all(len(set(sources)) == 1 for sources, _ in splits)
        return
    with pytest.raises(ValueError, match=f"{sentences} distinct sentences"):
        datasets.load_tatoeba(path)


def test_a_folder_without_tatoeba_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file deu\.txt or"):
        datasets.load_tatoeba(tmp_path)
    with pytest.raises(FileNotFoundError, match="Check the path"):
        datasets.load_tatoeba(tmp_path / "missing")


# Real data


@pytest.mark.parametrize("target", ["de", "fr"])
def test_the_real_multi30k_is_complete(data, target):
    splits = datasets.load_multi30k(data / "multi30k", "en", target)
    assert [len(sources) for sources, _ in splits] == [29000, 1014, 1000]
    words = [
        [sum(len(sentence.split()) for sentence in side) for side in split]
        for split in splits
    ]
    english, others = zip(*words, strict=True)
    assert english == (345_020, 12_167, 11_877)
    assert (
        others
        == {
            "de": (322_383, 11_568, 10_905),
            "fr": (362_021, 12_698, 12_352),
        }[target]
    )


def test_the_real_tatoeba_is_complete_and_split_by_sentence(data):
    splits = datasets.load_tatoeba(data / "tatoeba_deu_eng")
    sides = [set(sources) for sources, _ in splits]
    assert [len(side) for side in sides] == [134_922 - 2 * 2698, 2698, 2698]
    assert len(set.union(*sides)) == 134_922
    pairs = [pair for split in splits for pair in pairs_of(split)]
    assert len(set(pairs)) == len(pairs) == 169_159
    train, _, (_, tested) = splits
    assert 1 / 10 < len(set(tested) & set(train[1])) / len(set(tested)) < 1 / 8
