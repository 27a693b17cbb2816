"""Figures of attention, drawn by Matplotlib.

Each function returns a `matplotlib.figure.Figure`; `savefig` writes it to a
file. Figures are as narrow as a phone, in colours that colour-blind readers can
distinguish.
"""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_synth.analysis.statistics import AttentionStatistics

_WIDTH = 4.8  # inches
# Okabe and Ito's colours, dark ones first; additional lines are dashed.
_COLORS = "#0072B2 #D55E00 #009E73 #CC79A7 #56B4E9 #E69F00".split()
_STYLES = [*itertools.product(("-", "--", ":", "-."), _COLORS)]

Statistics = Mapping[str, AttentionStatistics]


def plot_heads(weights: Mapping[str, np.ndarray], sample: int = 0) -> Any:
    """Draws all heads of all layers in one figure, a row for each layer.

    Colours follow square roots, so that small weights are visible.

    Args:
        weights: Dictionary from names of layers to arrays `(B, H, T, S)`, as
            from `attention_weights`, or `(H, T, S)`, such as averages.
        sample: Integer, index in the batch.

    Returns:
        `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there is nothing to draw, or `sample` is out of range.

    Example:

    >>> weights = {"layer_0": np.full((4, 8, 8), 1 / 8),
    ...            "layer_1": np.eye(8)[None].repeat(4, 0)}
    >>> len(keras_synth.analysis.plot_heads(weights).axes)
    8
    """
    _check(weights, "attention_weights", "ndim")
    sheets = {}
    for name, own in weights.items():
        own = np.asarray(own)
        if own.ndim == 4 and not -len(own) <= sample < len(own):
            raise ValueError(
                f"The batch has {len(own)} samples. Received: sample={sample}"
            )
        sheets[name] = own[sample] if own.ndim == 4 else own
    most = max(len(own) for own in sheets.values())
    height = len(sheets) * _WIDTH / (most + 1) + 0.4
    figure, panels = _figure(len(sheets), most, height)
    from matplotlib.colors import PowerNorm

    labels = _short_names(sheets)
    for line, label, own in zip(panels, labels, sheets.values(), strict=True):
        for head, axes in enumerate(line):
            if head >= len(own):
                axes.set_axis_off()
                continue
            largest = max(float(np.max(own[head], initial=0.0)), 1e-9)
            axes.imshow(own[head], "magma", norm=PowerNorm(0.5, 0, largest))
            axes.set(xticks=[], yticks=[])
            if axes in panels[0]:
                axes.set_title(str(head), fontsize=8)
        line[0].set_ylabel(
            label, fontsize=8, rotation=0, ha="right", va="center"
        )
    figure.supxlabel("heads; rows are queries, columns keys", fontsize=9)
    return figure


def plot_histograms(
    statistics: Statistics | Mapping[str, Statistics],
) -> Any:
    """Draws a histogram of weights, a line for each layer.

    Args:
        statistics: Dictionary from names to `AttentionStatistics`, as from
            `attention_statistics`; or a dictionary from titles to such
            dictionaries, with a panel for each.

    Returns:
        `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there is nothing to draw.

    Example:

    >>> statistics = keras_synth.analysis.AttentionStatistics(num_heads=2)
    >>> statistics.add(np.full((4, 2, 8, 8), 1 / 8))
    >>> picture = keras_synth.analysis.plot_histograms({"uniform": statistics})
    >>> len(picture.axes)
    1
    """

    def draw(axes, own, **style):
        edges, counts = own.histogram()
        counts = counts.sum(0)
        shares = counts / max(counts.sum(), 1)
        axes.stairs(shares, edges, baseline=None, lw=1.6, **style)
        axes.set_xscale("log")
        axes.set_xlim(max(edges[1] / 2, 1e-6), edges[-1])

    return _lines(statistics, draw, "attention weight", "fraction of all pairs")


def plot_distance_profile(
    statistics: Statistics | Mapping[str, Statistics],
    reach: int | None = None,
) -> Any:
    """Draws the average weight at each distance, a line for each layer.

    Lines are means over heads.

    Args:
        statistics: As for `plot_histograms`.
        reach: Integer, the largest distance to draw, in tokens.

    Returns:
        `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there is nothing to draw.

    Example:

    >>> statistics = keras_synth.analysis.AttentionStatistics(num_heads=2)
    >>> statistics.add(np.full((4, 2, 8, 8), 1 / 8))
    >>> picture = keras_synth.analysis.plot_distance_profile(
    ...     {"uniform": statistics}, reach=4)
    >>> len(picture.axes)
    1
    """

    def draw(axes, own, **style):
        distances, means = own.distance_profile()
        near = abs(distances) <= (np.inf if reach is None else reach)
        marker = "o" if near.sum() == 1 else None  # no line has one point
        profile = means[:, near].mean(0)
        axes.plot(distances[near], profile, lw=1.6, marker=marker, **style)

    return _lines(statistics, draw, "distance j - i, tokens", "mean weight")


def _lines(statistics, draw, xlabel, ylabel):
    """A figure with a panel per group of statistics, and a line per layer."""
    grouped = isinstance(statistics, Mapping) and any(
        isinstance(x, Mapping) for x in statistics.values()
    )
    groups = statistics if grouped else {"": statistics}
    for group in groups.values():
        _check(group, "attention_statistics", "histogram")
    across = min(2, len(groups))
    down = -(-len(groups) // across)
    lines = max(map(len, groups.values()))
    figure, panels = _figure(down, across, (2.3 + 0.15 * lines) * down + 0.5)
    for axes in panels.flat[len(groups) :]:
        axes.set_axis_off()
    for axes, (title, group) in zip(panels.flat, groups.items(), strict=False):
        styles = itertools.cycle(_STYLES)
        for label, own in zip(_short_names(group), group.values(), strict=True):
            dashes, color = next(styles)
            draw(axes, own, color=color, linestyle=dashes, label=label)
        axes.set_title(title, fontsize=9)
        axes.grid(alpha=0.3)
        axes.tick_params(labelsize=8)
        axes.legend(
            fontsize=7,
            frameon=False,
            loc="upper center",
            bbox_to_anchor=(0.5, -0.12),
        )
    figure.supxlabel(xlabel, fontsize=9)
    figure.supylabel(ylabel, fontsize=9)
    return figure


def _figure(down, across, height):
    """An empty figure and its panels, an array `(down, across)`."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Figures need Matplotlib: pip install 'keras-synth[plot]'"
        ) from error
    figure = Figure((_WIDTH, height), layout="constrained", dpi=150)
    return figure, figure.subplots(down, across, squeeze=False)


def _short_names(names):
    """Paths without their common components."""
    paths = [name.split("/") for name in names]
    if len(paths) < 2 or len({*map(len, paths)}) > 1:
        return [*names]
    differ = [len({*column}) > 1 for column in zip(*paths, strict=True)]
    return ["/".join(itertools.compress(path, differ)) for path in paths]


def _check(things, source, attribute):
    """Raises unless values have an attribute, as those from a function."""
    if isinstance(things, Mapping):
        if things and all(hasattr(x, attribute) for x in things.values()):
            return
        things = {name: type(x).__name__ for name, x in things.items()}
    raise ValueError(
        "Expected a dictionary with at least one entry, as from "
        f"`{source}`. Received: {things!r}"
    )
