"""The file of results survives being killed, and knows its own format."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_synth.compare import grid, jobs, tasks
from keras_synth.compare.results import FORMAT, Results

pytestmark = pytest.mark.once  # nothing here depends on the backend


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


def older_row(**more):
    """As version 0.1 wrote it: with the settings of all objectives."""
    settings = tasks.TASKS["text"].settings("text", epochs=5).to_json()
    unused = {"lengths": [], "keep": "end", "label_smoothing": 0.0}
    key = {"settings": {**settings, **unused}, "variant": "R", "seed": 0}
    return {"format": 3, "key": key, "score": 0.5, **more}


def test_results_of_the_last_format_are_read_and_found(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps(older_row()) + "\n")
    results = Results(path)
    settings = tasks.TASKS["text"].settings("text", epochs=5).to_json()
    assert {"settings": settings, "variant": "R", "seed": 0} in results
    other = {**settings, "epochs": 6}
    assert {"settings": other, "variant": "R", "seed": 0} not in results
    results.append(row(1))
    assert [r["format"] for r in Results(path).rows] == [3, FORMAT]


@pytest.mark.parametrize("task", ["cola", "mrpc"])
@pytest.mark.parametrize("version", [3, 4])
def test_results_with_another_score_are_refused_and_kept(
    tmp_path, task, version
):
    path = tmp_path / "results.jsonl"
    settings = tasks.TASKS[task].settings(task).to_json()
    written = {"key": {"settings": settings, "seed": 0}, "score": 0.7}
    before = json.dumps({"format": version, **written}) + "\n"
    path.write_text(before)
    with pytest.raises(ValueError, match=f"line 1: the score of '{task}' is"):
        Results(path)
    assert path.read_text() == before
    path.write_text(json.dumps({"format": FORMAT, **written}) + "\n")
    assert written["key"] in Results(path)


@pytest.mark.parametrize("task", ["imdb", "rte", "multi30k"])
def test_results_with_the_same_score_are_read(tmp_path, task):
    path = tmp_path / "results.jsonl"
    settings = tasks.TASKS[task].settings(task).to_json()
    key = {"settings": settings, "seed": 0}
    path.write_text(json.dumps({"format": 4, "key": key}) + "\n")
    assert key in Results(path)


def test_what_an_older_format_left_half_finished_begins_anew(
    tmp_path, monkeypatch
):
    """Its checkpoint holds scores of epochs; initial weights have none."""
    settings = tasks.TASKS["cola"].settings("cola")
    found = jobs.Jobs(settings, "data.npz", "0", tmp_path)
    wanted = grid.Run("R", 2, 0, "torch")
    now = found.paths(wanted)
    monkeypatch.setattr(jobs, "FORMAT", FORMAT - 1)
    before = found.paths(wanted)
    assert now["checkpoint"] != before["checkpoint"]
    assert now["weights"] == before["weights"]


def test_a_new_setting_changes_no_key(tmp_path):
    """A result from before the setting came has its default."""
    path = tmp_path / "results.jsonl"
    written = older_row(format=FORMAT)
    for name in ("lengths", "keep", "label_smoothing", "dtype_policy"):
        del written["key"]["settings"][name]
    path.write_text(json.dumps(written) + "\n")
    settings = tasks.TASKS["text"].settings("text", epochs=5).to_json()
    key = {"settings": settings, "variant": "R", "seed": 0}
    assert key in Results(path)
    other = {**settings, "dtype_policy": "mixed_bfloat16"}
    assert {**key, "settings": other} not in Results(path)


def test_a_setting_that_only_a_later_version_knows_matches_nothing(tmp_path):
    path = tmp_path / "results.jsonl"
    written = older_row(format=FORMAT)
    settings = tasks.TASKS["text"].settings("text", epochs=5).to_json()
    written["key"]["settings"] = {**settings, "momentum": 0.5}
    path.write_text(json.dumps(written) + "\n")
    key = {"settings": settings, "variant": "R", "seed": 0}
    assert key not in Results(path)
