"""Score tables and pictures."""

import numpy as np
import pytest

from keras_synth import reporting
from keras_synth.analysis import AttentionStatistics

pytestmark = pytest.mark.once  # nothing here depends on the backend

pytest.importorskip("rich")


def test_names_are_folded_and_figures_are_whole(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    name = "factorized_random(rank=32) + dot_product"
    rows = [[name, "0.8755", "254,360,064"]]
    headings = ["variant", "accuracy", "parameters"]
    reporting.print_table("Scores", headings, rows, "as computed")
    out = capsys.readouterr().out
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 40
    for words in ("Scores", "0.8755", "254,360,064", "as computed"):
        assert words in out


def test_attention_is_told_in_means_over_heads(capsys):
    statistics = AttentionStatistics(num_heads=2)
    # One head looks at the token itself, the other one evenly at all four.
    heads = np.stack([np.eye(4), np.full((4, 4), 1 / 4)])
    statistics.add(heads[None].repeat(3, 0))
    reporting.print_attention({"V": {"layer_0": statistics}}, window=1)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert "layer entropy distance |i-j|<=1 first input".split() in lines
    # (0 + log 4) / 2, (0 + 20/16) / 2, (1 + 10/16) / 2, (1/4 + 1/4) / 2
    assert ["V:", "layer_0", "0.69", "0.62", "0.81", "0.25", "0.00"] in lines


def test_a_picture_is_there_when_it_is_complete(tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "curves.png"
    with reporting.picture(path, panels=2) as (left, right):
        left.plot([3, 2, 1])
        right.plot([1, 2])
        assert not path.exists()
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [*tmp_path.iterdir()] == [path]


def test_a_figure_is_written_whole_or_not_at_all(tmp_path):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    path = tmp_path / "new" / "heads.png"
    reporting.save_figure(path, figure)
    before = path.read_bytes()
    assert before.startswith(b"\x89PNG")
    figure.text(0.5, 0.5, r"$\nothing$")  # which Matplotlib cannot draw
    with pytest.raises(ValueError):
        reporting.save_figure(path, figure)
    assert path.read_bytes() == before
    assert [*path.parent.iterdir()] == [path]


def test_histories_are_lines_of_validation_and_dots_of_training(
    tmp_path, monkeypatch
):
    pytest.importorskip("matplotlib")
    from matplotlib.axes import Axes

    drawn, plot = [], Axes.plot

    def note(self, *arguments, **options):
        drawn.append((*arguments, options["label"]))
        return plot(self, *arguments, **options)

    monkeypatch.setattr(Axes, "plot", note)
    path = tmp_path / "curves.png"
    both = {"accuracy": [0.1, 0.2], "val_accuracy": [0.3, 0.4], "loss": [1, 2]}
    histories = {"R": both, "V": {"accuracy": [0.5]}}
    reporting.draw_histories(path, histories, "accuracy")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert drawn == [
        (range(1, 3), [0.3, 0.4], "C0o-", "R"),
        (range(1, 3), [0.1, 0.2], "C0:", None),
        (range(1, 2), [0.5], "C1:", "V"),
    ]


def test_curves_end_with_the_last_epoch():
    places, means = reporting.smoothed([1.0, 2.0, 3.0, 4.0], 2, epochs=8)
    np.testing.assert_allclose(means, [1.5, 2.5, 3.5])
    np.testing.assert_allclose(places, [4, 6, 8])
    places, means = reporting.smoothed([1.0, 3.0], 25, epochs=1)
    assert (places.tolist(), means.tolist()) == ([1.0], [2.0])
