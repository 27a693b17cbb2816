"""`datasets.read`: each format, and errors in files."""

import collections
import gzip
import re
import tarfile

import numpy as np
import pytest
from places import ROOT

from keras_synth import datasets

pytestmark = pytest.mark.once


def write(path, text, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, **options)
    return path


def test_a_csv_file_has_texts_and_labels(tmp_path):
    path = write(tmp_path / "a.csv", 'text,label\n"a, b",1\n"c ""d""",0\n')
    texts, labels = datasets.read(path)
    assert texts == ["a, b", 'c "d"']
    np.testing.assert_array_equal(labels, [1, 0])


def test_quotation_marks_of_a_tsv_file_are_ordinary(tmp_path):
    path = write(tmp_path / "a.tsv", 'one\ttwo\tkind\n"a\tb\tyes\nNA\td"\tno\n')
    pairs, labels = datasets.read(path, text=["one", "two"], label="kind")
    assert pairs == (['"a', "NA"], ["b", 'd"'])
    assert labels == ["yes", "no"]


def test_columns_have_numbers_without_a_header(tmp_path):
    path = write(tmp_path / "a.csv", "0.5¦a\n1¦b\n")
    options = {"text": 1, "label": 0, "header": False, "delimiter": "¦"}
    texts, labels = datasets.read(path, **options)
    assert texts == ["a", "b"]
    assert labels.tolist() == [0.5, 1.0]


def test_json_lines_can_have_several_labels(tmp_path):
    line = '{"text": "a", "one": "b", "two": 3}\n'
    path = write(tmp_path / "a.jsonl", line)
    assert datasets.read(path, label=["one", "two"]) == (["a"], [["b", "3"]])
    assert datasets.read(path, label=None) == ["a"]


def test_omitted_rows_leave_numbers_as_they_are(tmp_path):
    rows = ['{"text": 12, "label": 9007199254740993}', '{"text": "a"}']
    path = write(tmp_path / "a.jsonl", "\n".join(rows))
    texts, labels = datasets.read(path, skip_empty=True)
    assert texts == ["12"]
    assert labels.tolist() == [9007199254740993]


def test_an_empty_line_of_a_single_column_is_an_empty_text(tmp_path):
    path = write(tmp_path / "a.csv", "text\na\n\nb\n\n")
    with pytest.raises(ValueError, match=r"row 2 has no 'text'.*: 1 such rows"):
        datasets.read(path, label=None)
    assert datasets.read(path, label=None, skip_empty=True) == ["a", "b"]


def test_files_can_be_gzipped_and_start_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress("\ufefftext,label\nä,1\n".encode()))
    assert datasets.read(path)[0] == ["ä"]


def test_a_folder_can_contain_a_folder_for_each_class(tmp_path):
    for name, text in {"neg/2": "c", "pos/1": "a", "neg/1": "b"}.items():
        write(tmp_path / f"{name}.txt", text)
    write(tmp_path / ".hidden" / "1.txt", "d")
    assert datasets.read(tmp_path) == (["b", "c", "a"], ["neg", "neg", "pos"])


def test_two_files_have_parallel_lines(tmp_path):
    one = write(tmp_path / "a.en", "a\nb\n")
    two = write(tmp_path / "a.de", "c\nd\n")
    assert datasets.read([one, two]) == (["a", "b"], ["c", "d"])
    write(two, "c\n")
    with pytest.raises(ValueError, match="2 and 1 lines"):
        datasets.read([one, two])
    for paths in ([], [one], [one, two, one]):
        with pytest.raises(ValueError, match="two paths for `lines`"):
            datasets.read(paths, "lines")


@pytest.mark.parametrize("mark", ["\x0c", "\x1c", "\x85", "\u2028"])
def test_only_line_feeds_end_a_line(mark, tmp_path):
    one = write(tmp_path / "a.en", f"a{mark}b\r\nc")
    two = write(tmp_path / "a.de", f"d\ne{mark}f\n")
    assert datasets.read([one, two]) == ([f"a{mark}b", "c"], ["d", f"e{mark}f"])
    word = "\t".join(["1", f"a{mark}b", "_", "X"] + ["_"] * 6)
    path = write(tmp_path / "a.conllu", f"{word}\n\n")
    assert datasets.read(path) == ([[f"a{mark}b"]], [["X"]])


def test_a_text_is_a_string_and_a_folder_of_texts_a_list(tmp_path):
    path = write(tmp_path / "b.txt", "to be\n")
    write(tmp_path / "a.txt", "or not")
    assert datasets.read(path) == "to be\n"
    assert datasets.read(tmp_path) == ["or not", "to be\n"]


def test_words_of_a_treebank_are_those_with_a_number(tmp_path):
    rest = "\t_" * 6
    lines = [
        "# text = don't",
        f"1-2\tdon't\t_\t_{rest}",
        f"1\tdo\t_\tAUX{rest}",
    ]
    lines += [f"2\tn't\t_\tPART{rest}", f"2.1\tx\t_\tX{rest}", ""]
    path = write(tmp_path / "a.conllu", "\n".join(lines))
    assert datasets.read(path) == ([["do", "n't"]], [["AUX", "PART"]])
    write(path, "1\tdo\tAUX\n")
    with pytest.raises(ValueError, match="line 1: a word must have 10 fields"):
        datasets.read(path)


def test_empty_fields_are_errors_or_left_out(tmp_path):
    path = write(tmp_path / "a.csv", "text,label\na,1\n ,0\nb,1\n")
    with pytest.raises(ValueError, match=r"row 2 has no 'text'.*: 1 such rows"):
        datasets.read(path)
    assert datasets.read(path, skip_empty=True)[0] == ["a", "b"]
    rows = ['{"text": "a", "label": 1}', '{"text": null, "label": 0}']
    rows += ['{"text": "b"}', '{"text": "c", "label": 1}']
    path = write(tmp_path / "a.jsonl", "\ufeff" + "\n".join(rows))
    with pytest.raises(ValueError, match=r"row 2 has no 'text'.*: 2 such rows"):
        datasets.read(path)
    assert datasets.read(path, skip_empty=True)[0] == ["a", "c"]
    pair = (
        write(tmp_path / "a.en", "a\n\nb\n"),
        write(tmp_path / "a.de", "c\nd\ne"),
    )
    with pytest.raises(ValueError, match=r"a\.en: line 2 has no text"):
        datasets.read(pair)
    assert datasets.read(pair, skip_empty=True) == (["a", "b"], ["c", "e"])
    write(pair[0], "\n\n\n")
    with pytest.raises(ValueError, match="at least one row"):
        datasets.read(pair, skip_empty=True)
    write(pair[0], "a\nb\n")
    with pytest.raises(ValueError, match="2 and 3 lines"):
        datasets.read(pair, skip_empty=True)
    for name in ("folder/a/1.txt", "folder/b/1.txt", "folder/b/2.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / name, "" if name.endswith("2.txt") else "text")
    with pytest.raises(ValueError, match=r"2\.txt has no text"):
        datasets.read(tmp_path / "folder")
    found = datasets.read(tmp_path / "folder", skip_empty=True)
    assert found == (["text", "text"], ["a", "b"])


@pytest.mark.parametrize(
    "option",
    [
        {"text": "body"},
        {"label": None},
        {"header": False},
        {"delimiter": ";"},
        {"skip_empty": True},
    ],
)
def test_an_option_without_effect_is_an_error(option, tmp_path):
    path = write(tmp_path / "a.txt", "a")
    (name,) = option
    with pytest.raises(ValueError, match=f"'text' does not use {name}"):
        datasets.read(path, **option)


@pytest.mark.parametrize(
    "labels", [["1_0", "10"], ["nan", "inf"], ["007", "10"]]
)
def test_names_of_classes_that_python_would_read_as_numbers(labels, tmp_path):
    rows = "".join(f"text,{label}\n" for label in labels)
    path = write(tmp_path / "A.CSV", f"text,label\n{rows}")
    assert datasets.read(path)[1] == labels


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        (
            "a.csv",
            b"text,label\na,1\n",
            {"text": "b"},
            "no column 'b'.*columns",
        ),
        (
            "a.csv",
            b"text,label\na,1\n",
            {"label": "text"},
            "different columns.*'text'",
        ),
        ("a.csv", b"text,label\na,1\n", {"text": []}, r"columns.*text=\[\]"),
        ("a.csv", b"a||1\n", {"delimiter": "||"}, "cannot be read as csv"),
        ("a.csv", b"text,label\na,1,2,3\nb,1\n", {}, "cannot be read as csv"),
        ("a.csv", b"text,label\n", {}, "must have at least one row"),
        ("a.csv", b"", {}, "cannot be read as csv"),
        ("a.csv", b"\xff\xfe", {}, "must be UTF-8"),
        ("a.csv", "text,label\né,1\n".encode("latin-1"), {}, "Convert it"),
        (
            "a.csv",
            b"text;label\na;1\nb, c;1\n",
            {},
            r'other separator.*such as delimiter=";".*Received',
        ),
        ("a.csv", b"text;label\na;1\n", {}, 'delimiter=";"'),
        ("a.txt", b"\xff\xfe", {}, "must be UTF-8"),
        ("a.csv", b"text,text,label\na,b,1\n", {}, "must have one column"),
        ("a.jsonl", b"{}\n{", {}, "line 2: each line must be a JSON object"),
        ("a.jsonl", b"[1]", {}, "line 1: each line must be a JSON object"),
        ("a.jsonl", b"", {}, "must have at least one row"),
        ("a.jsonl", b"{}", {"header": False}, "does not use header"),
        ("a.csv", b"a", {"format": "parquet"}, "format must be one of"),
        ("a.jsonl", b'{"text": ["a"], "label": 1}', {}, "must be strings"),
        ("a.conllu", b"# none\n", {}, "must have at least one word"),
        ("a.csv.gz", b"text,label", {}, "is not a complete gzip file"),
        ("a.txt.gz", gzip.compress(b"text", mtime=0)[:-9], {}, "complete gzip"),
    ],
)
def test_an_unreadable_file_is_an_error_with_its_name(
    tmp_path, name, content, options, message
):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        datasets.read(path, **options)
    assert name in str(error.value)


# Files in docs/datasets.md, and in the data folder.
PUBLISHED = {
    "ag_news/train.csv": "ag_news/test.csv.gz",
    "RTE/train.tsv": "glue/RTE/train.tsv",
    "CoLA/train.tsv": "glue/CoLA/train.tsv",
    "SST-2/train.tsv": "glue/SST-2/train.tsv.gz",
    "MRPC/train.tsv": "glue/MRPC/train.tsv",
    "STS-B/train.tsv": "glue/STS-B/train.tsv",
    "train.en.gz": "multi30k/train.en.gz",
    "train.de.gz": "multi30k/train.de.gz",
    "wiki.train.tokens": "wikitext-2/wiki.train.tokens.gz",
    "en_ewt-ud-train.conllu": "ud_english_ewt/en_ewt-ud-train.conllu.gz",
    "dialogsum.train.jsonl": "dialogsum/dialogsum.dev.jsonl",
    "dialogsum.test.jsonl": "dialogsum/dialogsum.test.jsonl",
}
COUNTS = {"ag_news": 7600, "rte": 2490, "cola": 8551, "sst2": 67349}
COUNTS |= {"mrpc": 3667, "stsb": 5749, "multi30k": 29000, "ud_ewt": 12544}
COUNTS |= {"dialogsum": 500, "dialogsum_test": 500, "imdb": 400}


@pytest.mark.slow
def test_the_calls_of_the_page_read_published_files(
    data, tmp_path, monkeypatch
):
    for name, source in PUBLISHED.items():
        content = (data / source).read_bytes()
        if source.endswith(".gz") and not name.endswith(".gz"):
            content = gzip.decompress(content)
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    with tarfile.open(data / "imdb" / "aclImdb_labelled.tar.gz") as archive:
        taken = collections.Counter()
        for member in archive:
            folder = "/".join(member.name.split("/")[:3])
            if folder.startswith("aclImdb/train/") and member.isfile():
                taken[folder] += 1
                if taken[folder] <= 200:
                    archive.extract(member, tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "datasets.md").read_text()
    (code,) = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    found: dict = {}
    exec(code, found)
    for name, count in COUNTS.items():
        assert len(found[name][1]) == count, name
    text = found["wikitext"]
    assert len(text.split()) + text.count("\n") == 2088628
    assert len(found["dialogsum_test"][1][0]) == 3
    assert len({tag for row in found["ud_ewt"][1] for tag in row}) == 17


def test_copies_of_a_text_stay_on_one_side():
    texts = [f"text {i % 50}" for i in range(200)]
    labels = np.arange(200) % 50 % 2
    train, validation = datasets.train_validation_split(texts, labels, 0.2)
    assert not {*train[0]} & {*validation[0]}
    assert len(train[0]) + len(validation[0]) == 200
    assert validation[1].mean() == 0.5
    again = datasets.train_validation_split(texts, labels, 0.2)[1]
    assert again[0] == validation[0]
    train, validation = datasets.train_validation_split("aabb", [0, 0, 1, 1])
    assert len(train[0]) == len(validation[0]) == 2
    words = [np.array(["a"]), np.array(["b"])]  # sentences as arrays
    parts = datasets.train_validation_split(words, [["X"], ["Y"]], 0.5)
    assert [len(x) for x, _ in parts] == [1, 1]


@pytest.mark.parametrize(
    ("labels", "count"), [([0, 0, 1, 1], 2), ([0.1, 0.2, 0.3, 0.4], 1)]
)
def test_a_text_of_each_class_is_for_training(labels, count):
    (_, train), (_, rest) = datasets.train_validation_split(
        [*"abcd"], labels, 0.9
    )
    assert len({*train}) == len(train) == count
    assert len(rest) == 4 - count


def test_pairs_and_words_are_split_too():
    pairs, labels = datasets.generated_pairs(40)
    (train, _), (held_out, _) = datasets.train_validation_split(pairs, labels)
    assert isinstance(train, tuple)
    assert not {*zip(*train, strict=True)} & {*zip(*held_out, strict=True)}
    sentences, tags = datasets.generated_entities(40)
    parts = datasets.train_validation_split(sentences, tags, 0.25)
    assert [len(x) for x, _ in parts] == [30, 10]
    assert [*map(len, parts[1][0])] == [*map(len, parts[1][1])]


def test_pandas_columns_are_split_by_position():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(
        {"text": [*"aabbccddee"], "label": range(10)}, range(18, -2, -2)
    )
    parts = datasets.train_validation_split(table.text, table.label, 0.4)
    texts, labels = (pandas.concat(x) for x in zip(*parts, strict=True))
    assert sorted(labels) == [*range(10)]
    assert (texts == table.text[texts.index]).all()
    assert (labels == table.label[texts.index]).all()
    assert not {*parts[0][0]} & {*parts[1][0]}


@pytest.mark.parametrize("kind", [int, bool, str, np.int64, np.bool_])
@pytest.mark.parametrize("hold", [list, tuple, np.array])
def test_a_rare_class_is_held_out_in_proportion(kind, hold):
    labels = hold([kind(i < 20) for i in range(200)])
    texts = [f"text {i}" for i in range(200)]
    for seed in range(3):
        held_out = datasets.train_validation_split(texts, labels, 0.1, seed)[1]
        assert len(held_out[1]) == 20
        assert sum(x == labels[0] for x in held_out[1]) == 2


@pytest.mark.parametrize(
    ("texts", "fraction", "message"),
    [
        (["a", "b"], 1.0, "between 0"),
        (["a", "a"], 0.1, "two distinct"),
        (["a"], 0.1, "one label for each"),
        (("a text", "a"), 0.1, "tuple must be of lists"),
    ],
)
def test_data_that_cannot_be_split_are_an_error(texts, fraction, message):
    with pytest.raises(ValueError, match=message):
        datasets.train_validation_split(texts, [0, 1], fraction)
