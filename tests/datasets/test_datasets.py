import csv
import gzip
import io
import os
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_synth import datasets

pytestmark = pytest.mark.once  # nothing here depends on the backend

DATA = os.environ.get("KERAS_SYNTH_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="KERAS_SYNTH_DATA is not set")


def words(text):
    return re.findall(r"\w+", text.lower())


# IMDB

REVIEWS = {
    "train/neg/2_1.txt": "Dull.<br /><br />Long.",
    "train/neg/10_4.txt": "Slow.",
    "train/pos/0_9.txt": "Déjà vu.",
    "test/neg/0_3.txt": "Stale.<br/>Flat.",
    "test/pos/7_10.txt": "Moving.",
    "test/pos/11_7.txt": "Warm.",
}
EXTRAS = {
    "README": "Read me.",
    "train/labeledBow.feat": "9 0:9 1:1",
    "train/urls_pos.txt": "http://",
    "train/unsup/0_0.txt": "Who knows?",
    "train/pos/notes.txt": "Not a review.",
}


def write_imdb(folder, files, form="aclImdb", prefix="aclImdb/"):
    """Writes reviews as a folder, or as an archive if `form` has a suffix."""
    path = folder / form
    contents = {
        name: text if isinstance(text, bytes) else text.encode()
        for name, text in files.items()
    }
    if not path.suffix:
        for name, content in contents.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
        return path
    with tarfile.open(path, "w" if form == "a.tar" else "w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(prefix + name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def assert_same_splits(received, expected):
    for (texts, labels), (other_texts, other_labels) in zip(
        received, expected, strict=True
    ):
        assert texts == other_texts
        assert labels.dtype == "int32"
        np.testing.assert_array_equal(labels, other_labels)


def test_imdb_is_sorted_by_label_then_by_numeric_id(tmp_path):
    root = write_imdb(tmp_path, REVIEWS | EXTRAS)
    expected = (
        (["Dull.  Long.", "Slow.", "Déjà vu."], [0, 0, 1]),
        (["Stale. Flat.", "Moving.", "Warm."], [0, 1, 1]),
    )
    assert_same_splits(datasets.load_imdb(root), expected)
    assert_same_splits(datasets.load_imdb(str(tmp_path)), expected)


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tgz", "a.zip"])
@pytest.mark.parametrize("prefix", ["aclImdb/", "./aclImdb/", "", "./"])
def test_folder_and_archive_give_the_same_reviews(tmp_path, name, prefix):
    files = REVIEWS | EXTRAS | {"../evil.txt": "x"}
    archive = write_imdb(tmp_path, files, name, prefix)
    received = datasets.load_imdb(archive)
    assert list(tmp_path.iterdir()) == [archive]  # nothing was unpacked
    folder = write_imdb(tmp_path, REVIEWS)
    assert_same_splits(received, datasets.load_imdb(folder))


@pytest.mark.parametrize("form", ["aclImdb", "a.tar"])
@pytest.mark.parametrize(
    ("part", "content", "message"),
    [
        ("train/neg", {}, "no reviews in train/neg. Expected"),
        ("test/pos", {}, "no reviews in test/pos. Expected"),
        ("t", {}, "no reviews in train/neg, train/pos, test/neg, test/pos"),
        ("none", {"test/pos/8_8.txt": b"\xe9"}, "test/pos/8_8.txt, line 1: "),
    ],
)
def test_missing_and_faulty_reviews_are_named(
    tmp_path, form, part, content, message
):
    files = {k: v for k, v in REVIEWS.items() if not k.startswith(part)}
    path = write_imdb(tmp_path, EXTRAS | files | content, form)
    with pytest.raises(ValueError, match=message):
        datasets.load_imdb(path)


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz"])
def test_an_archive_cut_short_or_damaged_is_refused(tmp_path, name):
    path = write_imdb(tmp_path, REVIEWS, name)
    content = path.read_bytes()
    # A tar ends in padding, which is not missed as long as some remains.
    needed = 1024 * len(REVIEWS) if name == "a.tar" else len(content) - 1
    sizes = [*range(0, needed, max(1, needed // 24)), needed]
    damaged = bytearray(content)
    # The checksum of the third header, or of the whole.
    damaged[2 * 1024 + 150 if name == "a.tar" else -5] ^= 1
    no_archive = b"text " * 500
    for broken in [*(content[:n] for n in sizes), damaged, no_archive]:
        path.write_bytes(broken)
        with pytest.raises(ValueError, match="cannot be read as a tar"):
            datasets.load_imdb(path)


@needs_data
def test_the_real_imdb_is_complete_and_balanced():
    path = Path(DATA, "imdb", "aclImdb_labelled.tar.gz")
    for texts, labels in datasets.load_imdb(path):
        assert len(texts) == len(labels) == 25_000
        assert labels.mean() == 0.5
        assert not any("<br" in text for text in texts)
        assert min(len(words(text)) for text in texts) >= 4


# Tables


@pytest.fixture
def write(tmp_path):
    def write_table(content, name="table.csv"):
        if isinstance(content, str):
            content = content.encode()
        if name.lower().endswith(".gz"):
            content = gzip.compress(content)
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write_table


def assert_table(received, texts, labels, class_names):
    assert received[0] == texts
    assert received[1].dtype == "int32"
    assert received[1].tolist() == labels
    assert received[2] == class_names


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.txt", "T.CSV.GZ"])
def test_columns_are_found_by_default_name_or_index(write, name):
    path = write("ID,Label,TEXT\n7,spam,Buy now\n8,ham,Hello\n", name)
    expected = ["Buy now", "Hello"], [1, 0], ["ham", "spam"]
    assert_table(datasets.load_csv(path), *expected)
    assert_table(datasets.load_csv(path, "TEXT", "Label"), *expected)
    assert_table(datasets.load_csv(str(path), text=2, label=1), *expected)


@pytest.mark.parametrize("name", ["t.tsv", "t.tsv.gz", "T.TSV"])
def test_the_fields_of_a_tsv_are_taken_as_they_are(write, name):
    rows = ["\ufefftext\tlabel", '"One, two\ta', "", '"" "3\tb', 'Four"\ta']
    path = write("\n".join(rows), name)
    texts = ['"One, two', '"" "3', 'Four"']
    assert_table(datasets.load_csv(path), texts, [0, 1, 0], ["a", "b"])


def test_quotes_newlines_and_windows_line_ends_are_understood(write):
    path = write('\ufefftext,label\r\n"a, ""b""\r\nc",x\r\n\r\n"d\ne", y \r\n')
    texts = ['a, "b"\r\nc', "d\ne"]
    assert_table(datasets.load_csv(path), texts, [0, 1], ["x", "y"])


def test_long_fields_leave_the_limit_of_the_process_alone(write):
    before = csv.field_size_limit()
    long = "long " * 60_000
    path = write(f"text,label\n{long},a\nshort,b\n")
    assert datasets.load_csv(path)[0] == [long, "short"]
    assert csv.field_size_limit() == before


@pytest.mark.parametrize(
    ("values", "labels", "class_names"),
    [
        ("2 0 1 0", [2, 0, 1, 0], ["0", "1", "2"]),
        ("1 2 1 2", [0, 1, 0, 1], ["1", "2"]),
        ("-1 +1 -1 1", [0, 1, 0, 1], ["-1", "1"]),
        ("10 9 100 9", [1, 0, 2, 0], ["9", "10", "100"]),
        ("10 9 b 9", [0, 1, 2, 1], ["10", "9", "b"]),
        ("0.5 1.0 1.0 0.5", [0, 1, 1, 0], ["0.5", "1.0"]),
    ],
)
def test_labels_are_numbered_in_order(write, values, labels, class_names):
    rows = "".join(f"text {v},{v}\n" for v in values.split())
    received = datasets.load_csv(write("text,label\n" + rows))
    assert_table(received, received[0], labels, class_names)


@settings(max_examples=60, deadline=None, database=None)
@given(
    st.lists(
        st.text(st.characters(codec="utf-8"), min_size=1).filter(str.strip)
    ),
    st.sampled_from([".csv", ".csv.gz"]),
)
def test_any_text_survives_a_csv_writer(tmp_path_factory, texts, suffix):
    texts = [*texts, "words", "more words"]
    labels = [i % 2 for i in range(len(texts))]
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerow(["label", "text"])
    writer.writerows(zip(labels, texts, strict=True))
    content = buffer.getvalue().encode()
    path = tmp_path_factory.getbasetemp() / f"any{suffix}"
    path.write_bytes(gzip.compress(content) if "gz" in suffix else content)
    assert_table(datasets.load_csv(path), texts, labels, ["0", "1"])


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        ("review,label", {}, "no column 'text'. Pass text="),
        (
            "review,label",
            {},
            "pass delimiter= with it. Columns: ['review', 'label']",
        ),
        ("review,label", {"text": "reviews"}, "no column 'reviews'"),
        ("review,label", {"text": 2}, "no column 2"),
        ("review,label", {"text": -1}, "no column -1"),
        ("text,stars", {}, "no column 'label'. Pass label="),
        ("text,Text,label", {}, "more than one column 'text'"),
        (
            "text,label",
            {"text": 1},
            "must be different columns. Received: 'label'",
        ),
        ("text\tlabel", {}, r"['text\tlabel']"),
    ],
)
def test_columns_that_are_not_found_are_named(write, content, columns, message):
    path = write(content + "\na,b,0\nc,d,1\n")
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        datasets.load_csv(path, **columns)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "expected a header row"),
        ("\ufeff\n\r\n", "Received: 0 rows"),
        ("text,label\n", "Received: 1 rows"),
        (b"text,label\na,0\nb\xe9,1\n", "line 3: the text is not UTF-8"),
        ("text,label\n".encode("utf-16"), "line 1: the text is not UTF-8"),
        ("text,label\na,0\n\nb\nc,1\n", "line 4: expected 2 fields"),
        ("text,label\na,0\nb,c,1\n", "line 3: expected 2 fields as in the"),
        ('text,label\n"a\nb",0\nc,\n', "line 4: the field of column 'label'"),
        ("text,label\n \t,0\nc,1\n", "line 2: the field of column 'text'"),
        ('text,label\na,0\n"b,1\nc,0\n', "line 3: the row that starts here"),
        ('text,label\na,0\n"b" c,1\n', "line 3: the row that starts here"),
        ("text,label\na,x\nb,x\n", "all rows have the label 'x'"),
        ("text,label\na,1\nb,01\n", "all rows have the label '1'"),
    ],
)
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_a_faulty_table_names_the_line(write, content, message, name):
    path = write(content, name)
    limit = csv.field_size_limit()
    with pytest.raises(ValueError, match=message) as error:
        datasets.load_csv(path)
    assert str(path) in str(error.value)
    assert csv.field_size_limit() == limit


@pytest.mark.parametrize("size", [-9, -1, 20])
def test_a_gzip_file_cut_short_is_refused(tmp_path, size):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"text,label\na,0\nb,1\n" * 50)[:size])
    with pytest.raises(ValueError, match="cannot be read as a gzip file"):
        datasets.load_csv(path)


@pytest.mark.parametrize("empty", ["", " ", '"\t"'])
def test_rows_with_an_empty_field_are_left_out_on_demand_and_counted(
    write, empty
):
    path = write(f"a,b,c\nx,{empty},0\ny,,1\n{empty},,0\nz,,{empty}\nw,,0\n")
    with pytest.raises(ValueError, match=r"line 4: .*'a' is empty.*") as error:
        datasets.load_csv(path, "a", "c")
    assert "pass skip_empty=True" in str(error.value)
    assert str(error.value).endswith("Received: 2 such rows of 5")
    with pytest.warns(UserWarning, match="left out 2 of 5 rows") as warned:
        received = datasets.load_csv(path, "a", "c", skip_empty=True)
    assert_table(received, ["x", "y", "w"], [0, 1, 0], ["0", "1"])
    assert warned[0].filename == __file__
    with pytest.raises(ValueError, match="at least one row with a text and"):
        datasets.load_csv(path, "b", "c", skip_empty=True)


@needs_data
@pytest.mark.parametrize(
    ("name", "text", "label", "counts"),
    [
        ("SST-2", "sentence", "label", {"0": 428, "1": 444}),
        ("MRPC", "#2 String", "Quality", {"0": 129, "1": 279}),
        ("RTE", 2, 3, {"entailment": 146, "not_entailment": 131}),
    ],
)
def test_glue_loads_whole(name, text, label, counts):
    path = Path(DATA, "glue", name, "dev.tsv")
    texts, labels, class_names = datasets.load_csv(path, text, label)
    assert len(texts) == len(labels)
    assert class_names == list(counts)
    assert np.bincount(labels).tolist() == list(counts.values())


def test_a_table_without_header_is_read_by_index(write):
    path = write("a,0\nb,1\n")
    received = datasets.load_csv(path, 0, 1, header=False)
    assert_table(received, ["a", "b"], [0, 1], ["0", "1"])


@pytest.mark.parametrize("text", [("q", "Text"), ["q", 2], (0, 2)])
def test_two_text_columns_give_a_pair_of_lists(write, text):
    path = write("q,label,Text\na,0,b\nc,1,d\n")
    received = datasets.load_csv(path, text)
    assert_table(received, (["a", "c"], ["b", "d"]), [0, 1], ["0", "1"])


@pytest.mark.parametrize(
    ("content", "name", "arguments", "text"),
    [
        ("text;label\n'a;0\nb;1\n", "t.csv", {"delimiter": ";"}, "'a"),
        ('text,label\n"a,0\nb,1\n', "t.csv", {"quoted": False}, '"a'),
        ('text\tlabel\n"a\t"\t0\nb\t1\n', "t.tsv", {"quoted": True}, "a\t"),
        ("text,label\na,0\nb,1\n", "t.tsv", {"delimiter": ","}, "a"),
    ],
)
def test_delimiter_and_quoting_can_be_forced(
    write, content, name, arguments, text
):
    received = datasets.load_csv(write(content, name), **arguments)
    assert_table(received, [text, "b"], [0, 1], ["0", "1"])


@pytest.mark.parametrize(
    ("labels", "class_names", "expected"),
    [
        (["b", "b"], ["c", "b"], [1, 1]),
        (["10", "+9"], ["9", "10"], [1, 0]),
        (["01", "2"], ("2", "1"), [1, 0]),
        (["01", "x"], ["x", "01"], [1, 0]),
    ],
)
def test_class_names_of_the_training_file_number_the_labels(
    write, labels, class_names, expected
):
    path = write("text,label\nt,{}\nu,{}\n".format(*labels))
    received = datasets.load_csv(path, class_names=class_names)
    assert_table(received, ["t", "u"], expected, list(class_names))


def test_a_label_of_the_test_file_only_is_named(write):
    path = write("text,label\na,ham\n\nb,eggs\n")
    message = r"line 4: .* are \['ham', 'spam'\]. Received: 'eggs'"
    with pytest.raises(ValueError, match=message) as error:
        datasets.load_csv(path, class_names=["ham", "spam"])
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"header": False}, "no column 'text'. Pass text="),
        ({"header": False, "text": "a", "label": 1}, "with the index"),
        ({"header": False, "text": 0}, "no column 'label'. Pass label="),
        ({"text": ("text",)}, "list or tuple of two columns"),
        ({"text": ("text", "b", "label")}, "list or tuple of two columns"),
        ({"text": ("text", None)}, "list or tuple of two columns"),
        ({"text": ("text", "text")}, "Received: 'text' twice"),
        ({"text": ("b", "label")}, "Received: 'label' twice"),
        ({"text": "b"}, "column 'b', but every field is a number"),
        ({"text": ("text", "b")}, r"Received: \['1', '-2.5e3'\]. Pass text="),
        ({"delimiter": ";;"}, "a single character"),
        ({"delimiter": 0}, "a single character"),
        ({"class_names": "01"}, "a list of at least two different names"),
        ({"class_names": ["0", "0"]}, "a list of at least two"),
        ({"class_names": ["0"]}, "a list of at least two"),
    ],
)
def test_arguments_that_do_not_fit_the_table_are_refused(
    write, arguments, message
):
    path = write("text,b,label\na,1,0\nc,-2.5e3,1\n")
    with pytest.raises(ValueError, match=message):
        datasets.load_csv(path, **arguments)


def test_a_folder_is_no_table(tmp_path):
    with pytest.raises(ValueError, match="is a folder, but expected"):
        datasets.load_csv(tmp_path)


# Splitting


def test_a_split_keeps_all_examples_and_the_share_of_each_class():
    texts = [f"text {i}" for i in range(200)]
    labels = np.array([0] * 150 + [1] * 50, dtype="int32")
    train, validation = datasets.train_validation_split(texts, labels, 0.2)
    assert np.bincount(validation[1]).tolist() == [30, 10]
    assert np.bincount(train[1]).tolist() == [120, 40]
    assert train[1].dtype == "int32"
    label_of = dict(zip(texts, labels, strict=True))
    for side_texts, side_labels in (train, validation):
        assert [label_of.pop(text) for text in side_texts] == list(side_labels)
    assert not label_of
    assert train[0] != sorted(train[0], key=texts.index)


def test_a_split_depends_on_the_seed_only():
    texts, labels = datasets.generated_reviews(60)
    split = datasets.train_validation_split
    assert_same_splits(split(texts, labels), split(texts, labels, 0.1, 0))
    assert split(texts, labels)[1][0] != split(texts, labels, seed=1)[1][0]


@settings(max_examples=60, deadline=None, database=None)
@given(
    st.lists(st.integers(0, 12), min_size=1),
    st.floats(0.01, 0.99),
    st.integers(0, 9),
)
def test_copies_of_a_text_stay_on_one_side(numbers, fraction, seed):
    # Two texts of their own for each class, so that any list can be split.
    texts = [*"abcd", *map(str, numbers)]
    labels = [0, 0, 1, 1, *(i % 2 for i in range(len(numbers)))]
    train, validation = datasets.train_validation_split(
        texts, labels, fraction, seed
    )
    assert not set(train[0]) & set(validation[0])
    assert sorted(train[0] + validation[0]) == sorted(texts)
    assert train[0]
    assert validation[0]


def test_pairs_are_split_as_pairs():
    pairs = ["a", "a", "b", "a", "a"] * 4, ["c", "c", "c", "d", "e"] * 4
    split = datasets.train_validation_split(pairs, [0, 0, 1, 1, 0] * 4, 0.5)
    train, validation = (
        set(zip(*texts, labels.tolist(), strict=True))
        for texts, labels in split
    )
    assert not train & validation
    assert train | validation == {
        ("a", "c", 0),
        ("b", "c", 1),
        ("a", "d", 1),
        ("a", "e", 0),
    }
    for texts, labels in split:
        assert isinstance(texts, tuple)
        assert [type(side) for side in texts] == [list, list]
        assert len(texts[0]) == len(texts[1]) == len(labels)


def test_a_pair_is_split_as_the_text_of_both():
    first, second = (["a", "b", "c", "d", "a"], ["e", "f", "e", "f", "e"])
    labels = [0, 0, 1, 1, 0]
    joined = [f"{a} {b}" for a, b in zip(first, second, strict=True)]
    split = datasets.train_validation_split((first, second), labels)
    expected = datasets.train_validation_split(joined, labels)
    for (pairs, _), (texts, _) in zip(split, expected, strict=True):
        assert [" ".join(p) for p in zip(*pairs, strict=True)] == texts


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scores_are_no_classes(dtype):
    """Each of them may occur once; copies of a pair stay together."""
    first = [f"text {i // 2}" for i in range(40)]
    scores = np.linspace(0, 5, 40).astype(dtype)
    split = datasets.train_validation_split((first, first), scores, 0.25)
    assert [len(labels) for _, labels in split] == [30, 10]
    for (left, right), labels in split:
        assert left == right
        assert labels.dtype == dtype
        assert [left.count(text) for text in left] == [2] * len(left)
    together = np.concatenate([labels for _, labels in split])
    assert sorted(together) == scores.tolist()


def test_a_class_of_repeated_texts_is_still_on_both_sides():
    texts = ["a"] * 9 + ["b"] * 5 + ["c", "d"]
    train, validation = datasets.train_validation_split(
        texts, ["x"] * 14 + ["y"] * 2
    )
    assert validation[0].count("b") == 5
    assert set(train[1]) == set(validation[1]) == {"x", "y"}


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (ValueError, "same length", (["a", "b"], [0])),
        (ValueError, "same length", (["a", "b"], [[0], [1]])),
        (ValueError, "at least 1", ([], [])),
        (ValueError, "Class 1 has 1 distinct", (["a", "b", "c"], [0, 0, 1])),
        (ValueError, "Class 0 has 1 distinct", (["a", "a"], [0, 0])),
        (ValueError, "The set has 1 distinct", (["a", "a"], [0.5, 0.1])),
        (ValueError, "between 0 and 1", (["a", "b"], [0, 0], 0)),
        (ValueError, "between 0 and 1", (["a", "b"], [0, 0], 1.0)),
        (TypeError, "sequence of strings", ("ab", [0, 1])),
        (TypeError, "sequence of strings", ([["a"], ["b"]], [0, 1])),
        (TypeError, "sequence of strings", ((["a"], [1]), [0])),
        (ValueError, "same length", ((["a", "b"], ["c"]), [0, 1])),
    ],
)
def test_what_cannot_be_split_is_refused(error, message, arguments):
    with pytest.raises(error, match=message):
        datasets.train_validation_split(*arguments)


def test_a_missing_file_is_named_with_the_way_out(tmp_path):
    for load in (datasets.load_csv, datasets.load_imdb):
        with pytest.raises(FileNotFoundError, match="Check the path"):
            load(tmp_path / "missing.csv")
