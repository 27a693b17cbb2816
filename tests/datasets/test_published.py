import gzip
import os
import re
from pathlib import Path

import numpy as np
import pytest

from keras_synth import datasets

pytestmark = pytest.mark.once  # nothing here depends on the backend

DATA = os.environ.get("KERAS_SYNTH_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="KERAS_SYNTH_DATA is not set")


def write(folder, files, suffix=""):
    """Writes files by name; the suffix ".gz" zips them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        content = content.encode() if isinstance(content, str) else content
        content = gzip.compress(content) if suffix else content
        (folder / (name + suffix)).write_bytes(content)
    return folder


def assert_splits(received, expected, dtype="int32"):
    for (texts, labels), (other_texts, other_labels) in zip(
        received, expected, strict=True
    ):
        assert texts == other_texts
        assert labels.dtype == dtype
        assert labels.tolist() == other_labels


def counts(split):
    return np.bincount(split[1]).tolist()


def test_class_names_are_distinct():
    for names in datasets.CLASS_NAMES.values():
        assert len(set(names)) == len(names) >= 2


# GLUE

GLUE = {
    "CoLA": 'a95\t1\t\tShe "sang.\nc96\t0\t*\tSang she.\n',
    "SST-2": 'sentence\tlabel\nwarm "and witty \t1\ndull \t0\n',
    "RTE": "index\tsentence1\tsentence2\tlabel\n"
    '0\tIt "rains.\tIt is wet.\tentailment\n'
    "1\tIt rains.\tIt snows.\tnot_entailment\n",
    "MRPC": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    '1\t70\t71\tIt "rains.\tRain falls.\n'
    "0\t72\t73\tIt rains.\tIt pours.\n",
    "WNLI": "index\tsentence1\tsentence2\tlabel\n"
    '0\tIt "rains.\tIt is wet.\t1\n1\tIt rains.\tIt is dry.\t0\n',
    "STS-B": "index\tgenre\tsentence1\tsentence2\tscore\n"
    '0\tnews\tIt "rains.\tRain falls.\t4.750\n'
    "1\tnews\tIt rains.\tIt burns.\t0\n2\tnews\tA.\tB.\t4.75\n",
}
GLUE_SPLIT = {
    "CoLA": (['She "sang.', "Sang she."], [1, 0]),
    "SST-2": (['warm "and witty ', "dull "], [1, 0]),
    "RTE": (
        (['It "rains.', "It rains."], ["It is wet.", "It snows."]),
        [0, 1],
    ),
    "MRPC": (
        (['It "rains.', "It rains."], ["Rain falls.", "It pours."]),
        [1, 0],
    ),
    "WNLI": (
        (['It "rains.', "It rains."], ["It is wet.", "It is dry."]),
        [1, 0],
    ),
    "STS-B": (
        (['It "rains.', "It rains.", "A."], ["Rain falls.", "It burns.", "B."]),
        [4.75, 0, 4.75],
    ),
}


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("task", GLUE)
def test_a_task_of_glue_is_read_from_its_folder_or_the_one_around(
    tmp_path, task, suffix
):
    files = {"train.tsv": GLUE[task], "dev.tsv": GLUE[task]}
    folder = write(tmp_path / task, files, suffix)
    expected = (GLUE_SPLIT[task], GLUE_SPLIT[task])
    dtype = "float32" if task == "STS-B" else "int32"
    for path in (folder, str(tmp_path)):
        for name in (task, task.lower().replace("-", "")):
            assert_splits(datasets.load_glue(path, name), expected, dtype)


@pytest.mark.parametrize("task", ["QNLI", "scitail", "", None])
def test_other_tasks_of_glue_are_refused(tmp_path, task):
    message = f"of CoLA, SST-2, RTE, MRPC, STS-B, WNLI. Received: {task!r}"
    with pytest.raises(ValueError, match=message):
        datasets.load_glue(tmp_path, task)


def test_a_label_that_glue_does_not_have_is_named(tmp_path):
    dev = "sentence\tlabel\ngood\t1\nfair\t2\n"
    write(tmp_path, {"train.tsv": GLUE["SST-2"], "dev.tsv": dev})
    with pytest.raises(ValueError, match=r"dev.tsv, line 3: .*Received: '2'"):
        datasets.load_glue(tmp_path, "SST-2")


@pytest.mark.parametrize("score", ["high", "nan", "inf"])
def test_a_score_that_is_no_number_is_named(tmp_path, score):
    dev = f"sentence1\tsentence2\tscore\na\tb\t1.5\nc\td\t{score}\n"
    write(tmp_path, {"train.tsv": GLUE["STS-B"], "dev.tsv": dev})
    with pytest.raises(ValueError, match=rf"dev.tsv: .*Received: '{score}'"):
        datasets.load_glue(tmp_path, "STS-B")


def test_scores_have_no_classes():
    assert "STS-B" not in datasets.CLASS_NAMES
    assert datasets.CLASS_NAMES["WNLI"] == ("not_entailment", "entailment")


@needs_data
@pytest.mark.parametrize(
    ("task", "train", "dev"),
    [
        ("CoLA", [8551 - 6023, 6023], [1043 - 721, 721]),
        ("SST-2", [67349 - 37569, 37569], [872 - 444, 444]),
        ("RTE", [1249, 1241], [146, 131]),
        # This copy lacks one pair of label 1.
        ("MRPC", [3667 - 2473, 2473], [408 - 279, 279]),
        ("WNLI", [635 - 312, 312], [71 - 31, 31]),
    ],
)
def test_the_real_glue_is_complete(task, train, dev):
    splits = datasets.load_glue(Path(DATA, "glue"), task)
    assert list(map(counts, splits)) == [train, dev]


@needs_data
def test_the_real_scores_are_complete():
    train, dev = datasets.load_glue(Path(DATA, "glue"), "STS-B")
    for ((first, second), scores), count, mean in (
        (train, 5749, 2.7010),
        (dev, 1500, 2.3639),
    ):
        assert len(first) == len(second) == len(scores) == count
        assert scores.mean() == pytest.approx(mean, abs=1e-4)
        assert (scores.min(), scores.max()) == (0, 5)


# SciTail

SCITAIL = {
    "train.tsv": "premise\thypothesis\tlabel\r\n"
    '"""Rain", falls.\tIt rains.\t1\r\nSun.\tIt rains.\t0\r\n'
    "Dry.\tIt rains.\tneutral\r\nWet.\tIt rains.\tentails\r\n",
    "dev.tsv": "premise\thypothesis\tlabel\r\nA.\tB.\t0\r\nB.\tB.\t1\r\n",
    "test.csv": "premise,hypothesis,label\n"
    '"Warm, ""dry"".",It rains.,not_entailment\nWet.,It rains.,entailment\n',
}
SCITAIL_SPLITS = (
    (
        (['"""Rain", falls.', "Sun.", "Dry.", "Wet."], ["It rains."] * 4),
        [0, 1, 1, 0],
    ),
    ((["A.", "B."], ["B.", "B."]), [1, 0]),
    ((['Warm, "dry".', "Wet."], ["It rains."] * 2), [1, 0]),
)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_the_classes_of_scitail_have_several_names(tmp_path, suffix):
    folder = write(tmp_path / "scitail", SCITAIL, suffix)
    for path in (folder, tmp_path):
        assert_splits(datasets.load_scitail(path), SCITAIL_SPLITS)
    assert datasets.CLASS_NAMES["scitail"] == ("entails", "neutral")


def test_a_class_that_scitail_does_not_have_is_named(tmp_path):
    dev = SCITAIL["dev.tsv"].replace("\t1\r", "\tcontradiction\r")
    write(tmp_path, {**SCITAIL, "dev.tsv": dev})
    with pytest.raises(ValueError, match=r"dev.tsv, line 3: .*'contradiction'"):
        datasets.load_scitail(tmp_path)


@needs_data
def test_the_real_scitail_is_complete():
    splits = datasets.load_scitail(Path(DATA, "scitail"))
    assert [*map(counts, splits)] == [[8602, 14994], [657, 647], [842, 1284]]
    for pairs, _ in splits:
        assert not any("\r" in text for side in pairs for text in side)


# AG News

TEST = (
    '"3","Oil up","Oil at  #36;50."\n"1","Vote","A &lt;b&gt;vote&lt;/b&gt;"\n'
)
TEST_SPLIT = (["Oil up Oil at $50.", "Vote A vote"], [2, 0])
# A copy, and a text of the test set, in each part.
PARTS = {
    "train_part_noisyag_4.csv": "label,gt,text,group\r\n"
    "0,1,Win . They  won \\$1.,0\r\n"
    "1,2,Oil up . Oil at \\$50.,3\r\n"
    '0,3,"Web . ""Net""",0\r\n'
    "0,1,Win . They won \\$1.,0\r\n",
    "train_part_3.csv": "Win They won $1.,1\n"
    '"Cup The S amp;P, cup",1\nOil up Oil at $50.,2\n',
    "train_part_alps_5.tsv": "They won $1.\tSports\nThe S P cup\tSports\n"
    'THE S&P CUP.\tSports\n"A ""new"" chip"\tSci/Tech\noil at 50\tBusiness\n',
}
PARTS_SPLIT = (
    [
        "Win They won $1.",
        'Web "Net"',
        "Cup The S&P, cup",
        'A "new" chip',
    ],
    [1, 3, 1, 3],
)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("folder", [".", "ag_news_csv"])
def test_the_official_ag_news_is_taken_whole(tmp_path, folder, suffix):
    train = '"4","Chip","It\\is #39;s new."\n"2","Oil up","Oil at $50."\n' * 2
    write(tmp_path / folder, {"train.csv": train, "test.csv": TEST}, suffix)
    write(tmp_path / folder, PARTS)
    expected = ["Chip It is's new.", "Oil up Oil at $50."] * 2, [3, 1] * 2
    assert_splits(datasets.load_ag_news(tmp_path), (expected, TEST_SPLIT))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_parts_of_ag_news_are_joined_without_copies(tmp_path, suffix):
    write(tmp_path, PARTS | {"test.csv": TEST}, suffix)
    received = datasets.load_ag_news(tmp_path)
    assert_splits(received, (PARTS_SPLIT, TEST_SPLIT))


@pytest.mark.parametrize(
    ("raw", "mended"),
    [
        ("Haiti #39;s  quot;big quot; storm", 'Haiti\'s "big" storm'),
        ("AT amp;T #151;up", "AT&T—up"),
        ('Co.&lt;A HREF="x"&gt;MRK.N&lt;/A&gt;, said', "Co. MRK.N , said"),
        ("Apple &lt;AAPL.O&gt; 3 &lt; 4", "Apple <AAPL.O> 3 < 4"),
        ("a\\nnew\\\\line \\$3", "a nnew line $3"),
        ("Up .  . . at last . ", "Up at last ."),
        ("Nr. #39 of 40; so", "Nr. #39 of 40; so"),
    ],
)
def test_traces_of_web_pages_are_mended(tmp_path, raw, mended):
    raw = raw.replace('"', '""')
    test = f'"1","Title","{raw}"\n'
    write(tmp_path, {"train.csv": test, "test.csv": test})
    assert datasets.load_ag_news(tmp_path)[0][0] == [f"Title {mended}"]


def test_a_folder_without_training_texts_is_refused(tmp_path):
    write(tmp_path, {"test.csv": TEST})
    with pytest.raises(
        FileNotFoundError, match=r"no train\.csv or train.csv.gz"
    ):
        datasets.load_ag_news(tmp_path)


def test_a_class_that_ag_news_does_not_have_is_named(tmp_path):
    write(tmp_path, {"test.csv": TEST + '"5","Five","It is five."\n'})
    with pytest.raises(ValueError, match=r"test.csv, line 3: .*Received: '5'"):
        datasets.load_ag_news(tmp_path)


@needs_data
def test_the_parts_of_the_real_ag_news_are_joined():
    train, test = datasets.load_ag_news(Path(DATA, "ag_news"))
    assert counts(test) == [1900] * 4
    assert counts(train) == [5823, 5773, 5793, 5749]
    assert not set(train[0]) & set(test[0])
    assert len(set(train[0])) == len(train[0])
    traces = re.compile(r"#39;|quot;|&lt;|\\|  | \. ")
    assert not any(map(traces.search, train[0] + test[0]))


# Sentence polarity


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("encoding", ["utf-8", "windows-1252"])
def test_sentences_are_read_in_either_encoding(tmp_path, encoding, suffix):
    negative = [f"déjà vu — {i} …" for i in range(20)]
    positive = [f"très bien {i}" for i in range(10)]
    files = {
        "rt-polarity.neg": "\r\n".join([*negative, "", ""]).encode(encoding),
        "rt-polarity.pos": "\n".join(positive).encode(encoding),
    }
    path = write(tmp_path, files, suffix)
    train, test = datasets.load_rt_polarity(path, test_fraction=0.2)
    assert sorted(train[0] + test[0]) == sorted(negative + positive)
    assert (counts(train), counts(test)) == ([16, 8], [4, 2])
    for texts, labels in (train, test):
        assert labels.dtype == "int32"
        assert [text in positive for text in texts] == labels.tolist()


def test_a_test_fraction_out_of_range_is_refused(tmp_path):
    with pytest.raises(ValueError, match="test_fraction must lie between"):
        datasets.load_rt_polarity(tmp_path, 1)


def test_an_empty_file_of_sentences_is_refused(tmp_path):
    write(tmp_path, {"rt-polarity.neg": "\n", "rt-polarity.pos": "good"})
    with pytest.raises(ValueError, match=r"polarity\.neg: expected a sentence"):
        datasets.load_rt_polarity(tmp_path)


@needs_data
def test_the_real_sentences_are_complete():
    train, test = datasets.load_rt_polarity(Path(DATA, "rt_polarity"))
    assert (counts(train), counts(test)) == ([4798] * 2, [533] * 2)
    assert not set(train[0]) & set(test[0])


# Missing files

LOADERS = {
    "test.csv": datasets.load_ag_news,
    "train.tsv": lambda path: datasets.load_glue(path, "RTE"),
    "rt-polarity.neg": datasets.load_rt_polarity,
}


@pytest.mark.parametrize("name", LOADERS)
def test_missing_files_are_named(tmp_path, name):
    load = LOADERS[name]
    with pytest.raises(FileNotFoundError, match="Check the path"):
        load(tmp_path / "missing")
    with pytest.raises(FileNotFoundError, match=f"no file {name} or {name}.gz"):
        load(tmp_path)
    file = tmp_path / "file.csv"
    file.write_text("text")
    with pytest.raises(ValueError, match="is a file, but expected a folder"):
        load(file)


# UD English EWT

CONLLU = """\
# newdoc id = a
# text = #1: don't go
1\t#1\t#1\tSYM\tNN\t_\t0\troot\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVB\t_\t3\taux\t_\t_
3\tn't\tnot\tPART\tRB\t_\t1\tadvmod\t_\t_
3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_


# text = Yes
1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_
"""
CONLLU_SPLIT = (
    [["#1", "do", "n't"], ["Yes"]],
    [["SYM", "AUX", "PART"], ["INTJ"]],
)
CONLLU_FILES = [
    f"en_ewt-ud-{split}.conllu" for split in ("train", "dev", "test")
]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_words_and_their_parts_of_speech_are_read(tmp_path, suffix):
    files = dict.fromkeys(CONLLU_FILES, CONLLU)
    folder = write(tmp_path / "UD_English-EWT", files, suffix)
    for path in (folder, tmp_path):
        assert datasets.load_ud_ewt(path) == (CONLLU_SPLIT,) * 3
    assert datasets.load("UD-EWT", str(folder))[2] == CONLLU_SPLIT


@pytest.mark.parametrize(
    "line", ["1\tYes\tyes\tYES\tUH\t_\t0\troot\t_\t_", "1 Yes", "1\tYes\tINTJ"]
)
def test_a_line_that_is_no_word_is_named(tmp_path, line):
    files = dict.fromkeys(CONLLU_FILES, CONLLU)
    files[CONLLU_FILES[1]] = CONLLU + line
    folder = write(tmp_path, files)
    with pytest.raises(ValueError, match=r"dev.conllu, line 12: expected 10"):
        datasets.load_ud_ewt(folder)


@needs_data
def test_ud_ewt_loads_whole():
    splits = datasets.load_ud_ewt(Path(DATA, "ud_english_ewt"))
    assert [len(sentences) for sentences, _ in splits] == [12544, 2001, 2077]
    for part in range(2):
        totals = [sum(map(len, split[part])) for split in splits]
        assert totals == [204577, 25147, 25094]
    tags = [tag for row in splits[0][1] for tag in row]
    assert {*tags} == {*datasets.CLASS_NAMES["ud_ewt"]}
    assert tags.count("NOUN") == 34751
