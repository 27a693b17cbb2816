"""Pictures are Matplotlib figures of what they are given."""

import io
import subprocess
import sys

import numpy as np
import pytest
from attending_models import H, made

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
    return [np.asarray(x.get_array()) for x in figure.findobj(_image())]


def _image():
    from matplotlib.image import AxesImage

    return AxesImage


def test_a_sample_with_its_tokens():
    weights = RNG.random((3, 6, 6))
    figure = analysis.plot_attention(weights, ["to", "be", "$or"])
    assert {"to", "be", r"\$or", "head 0", "head 2"} <= texts(figure)
    for image, own in zip(images(figure), weights, strict=True):
        np.testing.assert_array_equal(image, own[:3, :3])  # without padding


def test_some_heads_of_cross_attention():
    weights = RNG.random((3, 2, 4))
    figure = analysis.plot_attention(
        weights, ["je", "suis"], ["I", "am", "here", "now"], heads=[2]
    )
    assert {"je", "now", "head 2"} <= texts(figure)
    (image,) = images(figure)
    np.testing.assert_array_equal(image, weights[2])


def test_all_heads_on_one_sheet():
    weights = {f"layer_{i}/x": RNG.random((2, 2 + i, 5, 5)) for i in range(2)}
    figure = analysis.plot_heads(weights, sample=1)
    assert {"0", "1"} <= texts(figure)
    drawn = images(figure)
    expected = [head for own in weights.values() for head in own[1]]
    assert len(drawn) == len(expected) == 5
    for image, own in zip(drawn, expected, strict=True):
        np.testing.assert_array_equal(image, own)


def test_histograms_are_shares_of_pairs():
    from matplotlib.patches import StepPatch

    found = statistics()
    figure = analysis.plot_histograms(found)
    assert {"0", "1", "layer_.../self_attention"} <= texts(figure)
    steps = figure.findobj(StepPatch)
    for step, own in zip(steps, found.values(), strict=True):
        counts = own.histogram()[1].sum(0)
        np.testing.assert_allclose(
            step.get_data().values, counts / counts.sum()
        )


def test_groups_have_a_panel_each():
    groups = {"V": statistics(), "R": statistics(), "D": statistics(1)}
    figure = analysis.plot_histograms(groups)
    assert {"V", "R", "D", "layer_0/self_attention"} <= texts(figure)


@pytest.mark.parametrize("kinds", [["self"], ["self_attention", "cross"]])
def test_a_legend_is_as_narrow_as_the_picture(kinds):
    (own,) = statistics(1).values()
    names = [f"layer_{i}/{kind}_a" for i in range(3) for kind in kinds]
    figure = analysis.plot_histograms({"V": dict.fromkeys(names, own)})
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert len(legend.get_texts()) == len(names)
    box = legend.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width


def test_the_profile_by_distance_is_the_mean_over_heads():
    found = statistics()
    figure = analysis.plot_distance_profile(found, reach=3)
    texts(figure)
    (axes,) = figure.axes
    for line, own in zip(axes.lines, found.values(), strict=True):
        places, means = own.distance_profile()
        near = abs(places) <= 3
        np.testing.assert_array_equal(line.get_xdata(), places[near])
        np.testing.assert_allclose(line.get_ydata(), means[:, near].mean(0))


def test_input_dependence_is_written_out():
    found = statistics()
    figure = analysis.plot_input_dependence(found)
    values = [own.input_dependence() for own in found.values()]
    expected = {f"{x:.2f}".removeprefix("0") for row in values for x in row}
    assert expected <= texts(figure)


def test_alphas_are_bars():
    model, _ = made("R+V")
    figure = analysis.plot_alphas(model)
    assert {"Random", "DotProduct"} <= texts(figure)
    tables = analysis.tables(model)
    shares = [x for name, x in tables.items() if name.endswith("/alphas")]
    assert len(figure.axes) == len(shares) == 2
    for axes, own in zip(figure.axes, shares, strict=True):
        heights = [bar.get_height() for bar in axes.patches]
        np.testing.assert_allclose(np.reshape(heights, (2, H)), own)


def test_a_view_has_layers_heads_and_tokens():
    treescope = pytest.importorskip("treescope")
    weights = {f"layer_{i}": RNG.random((2, 2, 3, 3)) for i in range(2)}
    tokens = ["first", "second", "third"]
    view = analysis.view_attention(weights, tokens, sample=1)
    page = treescope.render_to_html(view, compressed=False)
    for word in ("layer_0", "layer_1", "head", "query", *tokens):
        assert word in page, word
    assert "http" not in page


@pytest.mark.parametrize(
    ("weights", "tokens", "match"),
    [
        (
            {"a": np.ones((1, 2, 2)), "b": np.ones((1, 3, 3))},
            None,
            "same heads and tokens.*'b': \\(1, 3, 3\\)",
        ),
        ({"a": np.ones((1, 2, 2))}, ["to"], "`tokens` must be 2.*1"),
    ],
)
def test_what_cannot_be_viewed(weights, tokens, match):
    pytest.importorskip("treescope")
    with pytest.raises(ValueError, match=match):
        analysis.view_attention(weights, tokens)


@pytest.mark.parametrize(
    ("draw", "match"),
    [
        (lambda: analysis.plot_attention(np.ones((1, 2, 3, 3))), "one sample"),
        (
            lambda: analysis.plot_attention(np.ones((3, 3)), list("abcd")),
            "`tokens`.*1 to 3.*4",
        ),
        (
            lambda: analysis.plot_attention(np.ones((3, 3)), heads=[1]),
            "heads 0 to 0.*\\[1\\]",
        ),
        (lambda: analysis.plot_heads({}), "an entry or more.*{}"),
        (
            lambda: analysis.plot_heads({"a": np.ones((2, 1, 3, 3))}, 2),
            "2 samples.*sample=2",
        ),
        (lambda: analysis.plot_histograms({}), "an entry or more"),
        (lambda: analysis.plot_distance_profile({"V": {}}), "entry or more"),
        (lambda: analysis.plot_input_dependence({}), "an entry or more"),
        (lambda: analysis.plot_alphas(made("BERT")[0]), "mixtures.*R\\+V"),
    ],
)
def test_bad_input_is_refused(draw, match):
    with pytest.raises(ValueError, match=f"(?s){match}"):
        draw()


def test_only_pictures_need_matplotlib():
    code = """
import sys
sys.modules["matplotlib"] = None  # as where it is not installed
import numpy as np
from keras_synth import analysis

try:
    analysis.plot_attention(np.ones((2, 2)))
except ImportError as error:
    print(error)
"""
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "keras-synth[plot]" in found.stdout
