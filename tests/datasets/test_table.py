"""A new published data set is an entry of the table, and no new function."""

import gzip

import pytest

from keras_synth import datasets
from keras_synth.datasets import readers

pytestmark = pytest.mark.once  # nothing here depends on the backend


@pytest.fixture
def add(monkeypatch):
    def add(*arguments, **options):
        entry = datasets.Dataset(*arguments, **options)
        monkeypatch.setitem(datasets.DATASETS, entry.name, entry)

    return add


def test_an_entry_of_labelled_texts_is_read(add, tmp_path):
    add(
        "Made-Up",
        readers.labelled,
        readers.tables,
        "the folder of weather reports",
        {"train": "reports.tsv"},
        "weather",
        columns={"text": "report", "class_names": ("dry", "wet")},
        class_names=("dry", "wet"),
        clean=lambda texts: [text.strip() for text in texts],
        held_out={"test": 0.5},
    )
    (tmp_path / "weather").mkdir()
    lines = [f"no {i} \t{'wet' if i % 2 else 'dry'}" for i in range(8)]
    content = "\n".join(["report\tlabel", *lines]).encode()
    file = tmp_path / "weather" / "reports.tsv.gz"
    file.write_bytes(gzip.compress(content))
    for path in (tmp_path, tmp_path / "weather"):
        train, test = datasets.load("made_up", path)
        assert sorted(train[0] + test[0]) == [f"no {i}" for i in range(8)]
        for texts, labels in (train, test):
            assert labels.dtype == "int32"
            assert labels.tolist() == [int(text[3:]) % 2 for text in texts]
    small, _ = datasets.load("made_up", tmp_path, test_fraction=0.75, seed=1)
    assert len(small[0]) == 2
    with pytest.raises(ValueError, match="test_fraction must lie between"):
        datasets.load("made_up", tmp_path, test_fraction=1)
    with pytest.raises(TypeError, match="turns"):
        datasets.load("made_up", tmp_path, turns=1)


def test_an_entry_of_pairs_is_read(add, tmp_path):
    files = {"train": "questions.jsonl", "validation": "few.jsonl"}
    add(
        "questions",
        readers.pairs,
        readers.json_lines,
        "the folder of questions",
        {**files, "test": "held.jsonl"},
        columns={"train": ("ask", "answer"), "test": ("ask", "answer")},
    )
    for split, name in enumerate((*files.values(), "held.jsonl")):
        (tmp_path / name).write_text(f'{{"ask": "{split}?", "answer": "yes"}}')
    expected = tuple(([f"{i}?"], ["yes"]) for i in range(3))
    assert datasets.load("questions", tmp_path) == expected


def test_an_entry_of_plain_text_is_read(add, tmp_path):
    add(
        "novel",
        readers.plain,
        readers.one_text,
        "the file novel.txt",
        {"train": "novel.txt"},
        columns=(50, 80),
    )
    (tmp_path / "novel.txt").write_text("0123456789")
    expected = "01234", "567", "89"
    assert datasets.load("Novel", tmp_path) == expected
    assert datasets.load("novel", tmp_path / "novel.txt") == expected
    (tmp_path / "novel.txt").write_text("0")
    with pytest.raises(ValueError, match="split in 50, 30 and 20 %"):
        datasets.load("novel", tmp_path)


def test_every_entry_can_be_read_by_its_name_alone(tmp_path):
    for name in datasets.DATASETS:
        with pytest.raises(FileNotFoundError, match="Check the path"):
            datasets.load(name, tmp_path / "missing")
    with pytest.raises(ValueError, match="name must be one of imdb, CoLA"):
        datasets.load("poems", tmp_path)
