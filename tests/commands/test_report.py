"""`keras-synth report --html`: of any folder, a page or one line."""

import contextlib
import re

import numpy as np
import pytest
from result_rows import row, rows, write

import keras_synth_command as command
from keras_synth.compare import report, tasks
from keras_synth.training import reporting

pytestmark = pytest.mark.once  # nothing here depends on the backend

pytest.importorskip("keras_hub")


def said(folder, capsys, *options):
    """Status and what was printed."""
    try:
        status = command.main(["report", str(folder), *options])
    except SystemExit as stop:
        status = stop.code
    return status, *capsys.readouterr()


def test_the_page_is_written_where_it_is_asked_for(tmp_path, capsys):
    write(tmp_path, rows({"V": [0.9, 0.8], "R": [0.7, 0.75]}))
    status, out, _ = said(tmp_path, capsys)
    assert status == 0
    assert "curves.png and costs.png are in" in out
    assert not (tmp_path / "report.html").exists()
    status, out, _ = said(tmp_path, capsys, "--html")
    assert status == 0
    assert "costs.png and report.html are in" in out
    assert "V - R = 12.50" in (tmp_path / "report.html").read_text()


def test_results_of_other_settings_have_a_page_each(tmp_path, capsys):
    write(tmp_path, [row(), row(settings={"epochs": 9})])
    assert said(tmp_path, capsys, "--html")[0] == 0
    for name in ("1", "2"):
        assert (tmp_path / "reports" / name / "report.html").exists()


def test_the_picture_of_costs_has_a_mark_for_each_line(tmp_path, monkeypatch):
    """Its place is speed and score, its area memory."""
    drawn = []

    @contextlib.contextmanager
    def kept(path, **options):
        with reporting.picture(path, **options) as axes:
            yield axes
            drawn.append(axes)

    monkeypatch.setattr(report, "picture", kept)
    found = [
        row("V", 0, score=0.9, steps_per_second=4.0),
        row("V", 1, score=0.8, steps_per_second=6.0),
        row("R", score=0.7, peak_memory_bytes=150 * 2**20),
        row("D", peak_memory_bytes=None),
    ]
    score = tasks.TASKS["pairs"].objective.score
    assert report.draw_costs(found, score, tmp_path / "costs.png")
    assert (tmp_path / "costs.png").stat().st_size > 10_000
    (axes,) = drawn
    (marks,) = axes.collections
    places = np.array([[5, 85], [21, 70]])
    np.testing.assert_allclose(marks.get_offsets(), places)
    first, second = marks.get_sizes()
    assert first == pytest.approx(4 * second)
    assert [text.get_text() for text in axes.texts] == ["V", "R"]
    assert "150 to 600 MiB" in axes.get_title()
    assert not report.draw_costs(found[3:], score, tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()


def test_names_are_no_markup_anywhere(tmp_path, capsys):
    name = "[bold]<script>|[/bold] $x"
    write(tmp_path, [row(name), row(name, backend="mxnet")])
    status, out, _ = said(tmp_path, capsys, "--html")
    assert status == 0
    assert "[bold]" in out
    lines = (tmp_path / "results.md").read_text().splitlines()
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1
    assert "<script" not in lines[2]
    assert (tmp_path / "curves.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "Received: none"),
        (b"", "Received: none"),
        (b'{"format": 5, "key', "Received: none"),
        (b'{"loss": 0.5}\n', "expected results in format 5"),
        (b"epoch,loss\n1,0.5\n", "line 1 is damaged"),
        (b"\x89PNG\r\n\x1a\n\x00\xff\n", "line 1 is damaged"),
        (b"[[[]]]\n", "expected results in format 5"),
    ],
)
def test_a_folder_without_results_is_one_line(tmp_path, capsys, content, words):
    if content is not None:
        (tmp_path / "results.jsonl").write_bytes(content)
    status, _, err = said(tmp_path, capsys, "--html")
    assert status == 2
    assert err.count("\n") == 1
    assert words in err
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("name", ["\ud800", "a\nb", "\x00", "\u202e"])
@pytest.mark.parametrize("field", ["variant", "backend"])
def test_what_cannot_be_a_name_is_one_line(tmp_path, capsys, field, name):
    write(tmp_path, [row(), row(**{field: name}, seed=1)])
    status, _, err = said(tmp_path, capsys, "--html")
    assert status == 2
    assert err.count("\n") == 1
    assert f"line 2 is damaged (its {field!r} is no name)" in err


def test_a_half_written_last_result_is_left_out(tmp_path, capsys):
    write(tmp_path, [row(), row("R")])
    path = tmp_path / "results.jsonl"
    path.write_bytes(path.read_bytes()[:-100])
    status, out, _ = said(tmp_path, capsys, "--html")
    assert status == 0
    assert "line 2: the last result is half-written" in out
    assert "1 run on the task pairs" in (tmp_path / "report.html").read_text()


def test_a_file_in_the_place_of_a_folder_is_one_line(tmp_path, capsys):
    (tmp_path / "x").write_text("")
    status, _, err = said(tmp_path / "x", capsys, "--html")
    assert status == 2
    assert err.count("\n") == 1


def test_the_picture_of_thousands_of_runs_is_of_the_best(tmp_path):
    found = [
        x
        for number in range(1000)
        for x in rows({f"FR(rank={number + 1})": [number / 1000] * 2})
    ]
    score = tasks.TASKS["pairs"].objective.epoch_score
    drawn, title = report._drawn(found, score)
    assert len(drawn) == report.DRAWN
    assert title == f"pairs: {report.DRAWN} of 2,000 runs"
    assert min(x["validation_scores"][-1] for x in drawn) > 0.95
    assert report._drawn(found[:3], score) == (found[:3], "pairs")
