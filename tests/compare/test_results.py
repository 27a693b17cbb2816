"""The file of results survives being killed, and knows its own format."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_synth.compare.results import FORMAT, Results


def row(number):
    return {"key": {"variant": "R", "seed": number}, "score": 0.5}


def test_results_are_read_back(tmp_path):
    path = tmp_path / "folder" / "results.jsonl"
    results = Results(path)
    results.append(row(0))
    results.append(row(1))
    again = Results(path)
    assert again.rows == results.rows
    assert row(1)["key"] in again
    assert row(2)["key"] not in again


@settings(deadline=None, max_examples=40)
@given(cut=st.integers(1, 60))
def test_a_half_written_last_line_is_left_out_with_a_word(
    tmp_path_factory, cut
):
    path = tmp_path_factory.mktemp("cut") / "results.jsonl"
    results = Results(path)
    results.append(row(0))
    whole = path.read_bytes()
    results.append(row(1))
    line = path.read_bytes()[len(whole) :]
    path.write_bytes(whole + line[: -1 - cut])
    again = Results(path)
    assert [r["key"]["seed"] for r in again.rows] == [0]
    again.append(row(2))
    assert [r["key"]["seed"] for r in Results(path).rows] == [0, 2]


def test_a_last_line_without_its_end_is_whole(tmp_path):
    path = tmp_path / "results.jsonl"
    Results(path).append(row(0))
    path.write_bytes(path.read_bytes()[:-1])
    results = Results(path)
    results.append(row(1))
    assert [r["key"]["seed"] for r in Results(path).rows] == [0, 1]


def test_the_word_names_the_line(tmp_path, capsys):
    path = tmp_path / "results.jsonl"
    Results(path).append(row(0))
    with open(path, "a") as file:
        file.write('{"format"')
    Results(path)
    said = capsys.readouterr().out
    assert "line 2" in said
    assert "half-written" in said


def test_a_damaged_line_in_between_is_an_error(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text('{"format"\n' + json.dumps({"format": FORMAT}) + "\n")
    with pytest.raises(ValueError, match="line 1 is damaged"):
        Results(path)


@pytest.mark.parametrize(
    "other",
    [
        {"format": FORMAT + 1, "versions": {"keras_synth": "9.9"}},
        {"score": 1},
        [1, 2],
    ],
)
def test_results_of_another_version_are_refused_and_kept(tmp_path, other):
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps(other) + "\n")
    before = path.read_bytes()
    with pytest.raises(ValueError, match="--output") as error:
        Results(path)
    assert "Received" in str(error.value)
    assert path.read_bytes() == before
