"""Plots are Matplotlib figures of their data."""

import io
import sys

import numpy as np
import pytest
from assertions import close, equal

from keras_synth import analysis
from keras_synth.analysis import AttentionStatistics

pytestmark = pytest.mark.once  # arrays are drawn, of any backend

pytest.importorskip("matplotlib")

RNG = np.random.default_rng(0)


def statistics(layers=2, heads=3):
    found = {}
    for i in range(layers):
        own = AttentionStatistics(heads)
        own.add(RNG.random((2, heads, 6, 6)) / 6)
        found[f"layer_{i}/self_attention"] = own
    return found


def texts(figure):
    """All that is written in a figure."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    assert drawn.getbuffer().nbytes > 3_000
    from matplotlib.text import Text

    return {x.get_text() for x in figure.findobj(Text)} - {""}


def images(figure):
    from matplotlib.image import AxesImage

    return [np.asarray(x.get_array()) for x in figure.findobj(AxesImage)]


def test_all_heads_are_in_one_figure():
    weights = {f"layer_{i}/x": RNG.random((2, 2 + i, 5, 5)) for i in range(2)}
    figure = analysis.plot_heads(weights, sample=1)
    assert {"0", "1"} <= texts(figure)
    drawn = images(figure)
    expected = [head for own in weights.values() for head in own[1]]
    assert len(drawn) == len(expected) == 5
    equal(drawn, expected)


def test_histograms_are_shares_of_pairs():
    from matplotlib.patches import StepPatch

    found = statistics()
    figure = analysis.plot_histograms(found)
    assert {"layer_0", "layer_1"} <= texts(figure)
    steps = figure.findobj(StepPatch)
    for step, own in zip(steps, found.values(), strict=True):
        counts = own.histogram()[1].sum(0)
        close(step.get_data().values, counts / counts.sum(), atol=0)


def test_groups_have_a_panel_each():
    groups = {"V": statistics(), "R": statistics(), "D": statistics(1)}
    figure = analysis.plot_histograms(groups)
    assert {"V", "R", "D", "layer_0/self_attention"} <= texts(figure)


def test_the_profile_by_distance_is_the_mean_over_heads():
    found = statistics()
    figure = analysis.plot_distance_profile(found, reach=3)
    texts(figure)
    (axes,) = figure.axes
    for line, own in zip(axes.lines, found.values(), strict=True):
        places, means = own.distance_profile()
        near = abs(places) <= 3
        equal(line.get_xdata(), places[near])
        close(line.get_ydata(), means[:, near].mean(0), atol=0)
        assert line.get_marker() == "None"
    (axes,) = analysis.plot_distance_profile(found, reach=0).axes
    assert {line.get_marker() for line in axes.lines} == {"o"}


@pytest.mark.parametrize(
    ("draw", "match"),
    [
        (
            lambda: analysis.plot_heads({"a": np.ones((2, 1, 3, 3))}, 2),
            "2 samples.*sample=2",
        ),
        (lambda: analysis.plot_heads(statistics()), "AttentionStatistics"),
        (lambda: analysis.plot_histograms({"V": np.ones(3)}), "'V': 'ndarray'"),
        (lambda: analysis.plot_distance_profile({"V": {}}), "one entry"),
    ],
)
def test_bad_input_is_an_error(draw, match):
    with pytest.raises(ValueError, match=f"(?s){match}"):
        draw()


def test_pictures_name_the_extra_that_they_need(monkeypatch):
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"keras-synth\[plot\]"):
        analysis.plot_heads({"a": np.ones((1, 2, 2, 2))})
