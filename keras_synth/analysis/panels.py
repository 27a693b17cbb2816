"""Figures and panels of `plots`: sizes, colours, matrices and lines."""

import itertools
from collections.abc import Mapping

import numpy as np

from keras_synth.analysis.short_names import common_part, shortened

WIDTH = 4.8  # inches
# Okabe and Ito's colours, the dark ones first; beyond them lines are dashed.
COLORS = "#0072B2 #D55E00 #009E73 #CC79A7 #56B4E9 #E69F00".split()
DASHES = "-", "--", ":", "-."
COLORMAP = "magma"
# Tokens are written out up to this many.
MOST_TOKENS = 40


def new_figure(down, across, height):
    """An empty figure and its panels, an array `(down, across)`.

    Args:
        down: Integer, rows of panels.
        across: Integer, columns of panels.
        height: Float, of the figure, in inches.

    Raises:
        ImportError: If Matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Pictures are drawn by Matplotlib: pip install 'keras-synth[plot]'"
        ) from error
    made = Figure((WIDTH, height), layout="constrained", dpi=150)
    made.patch.set_facecolor("white")
    return made, made.subplots(down, across, squeeze=False)


def draw_matrix(axes, matrix):
    """Draws attention weights, colours by their square roots."""
    from matplotlib.colors import PowerNorm

    largest = max(float(np.nanmax(matrix, initial=0.0)), 1e-9)
    norm = PowerNorm(0.5, 0, largest)
    axes.imshow(matrix, cmap=COLORMAP, norm=norm, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])


def write_tokens(set_ticks, tokens, rotation):
    """Writes tokens along an axis, unless they are too many to be read."""
    if tokens is not None and len(tokens) <= MOST_TOKENS:
        size = 8 if len(tokens) <= 20 else 6
        tokens = [token.replace("$", r"\$") for token in tokens]
        set_ticks(range(len(tokens)), tokens, fontsize=size, rotation=rotation)


def shown_length(name, tokens, length):
    """How many of the rows or columns are drawn: those that have a token.

    Args:
        name: String, what errors call the tokens.
        tokens: Strings, or `None` for all rows.
        length: Integer, how many rows there are.

    Raises:
        ValueError: If there are no tokens, or more than rows.
    """
    if tokens is None:
        return length
    if not 0 < len(tokens) <= length:
        raise ValueError(
            f"`{name}` must be 1 to {length} strings, as the weights have it. "
            f"Received: {len(tokens)}"
        )
    return len(tokens)


def draw_lines(statistics, draw, xlabel, ylabel):
    """A figure with a panel for each group of statistics.

    Args:
        statistics: Dictionary from names of layers to statistics, or one from
            titles to such dictionaries.
        draw: Function of axes, the statistics of a layer, whether the panel
            has more than three layers, and the style of a line.
        xlabel: String, below all panels.
        ylabel: String, beside all panels.

    Raises:
        ValueError: If there is nothing to draw.
    """
    check_any(statistics)
    grouped = isinstance(next(iter(statistics.values())), Mapping)
    groups = statistics if grouped else {"": statistics}
    across = min(2, len(groups))
    down = -(-len(groups) // across)
    figure, panels = new_figure(down, across, 2.3 * down + 0.9)
    for axes, (title, group) in itertools.zip_longest(
        panels.flat, groups.items(), fillvalue=(None, None)
    ):
        if group is None:
            axes.set_axis_off()
            continue
        check_any(group)
        pairs = zip(shortened(group), group.values(), strict=True)
        for i, (label, own) in enumerate(pairs):
            color = COLORS[i % len(COLORS)]
            dashes = DASHES[i // len(COLORS) % len(DASHES)]
            crowded = len(group) > 3
            draw(axes, own, crowded, color=color, linestyle=dashes, label=label)
        axes.set_title(title, fontsize=9)
        axes.grid(alpha=0.3)
        axes.tick_params(labelsize=8)
    _draw_legends(figure, panels.flat, groups)
    figure.supxlabel(xlabel, fontsize=9)
    figure.supylabel(ylabel, fontsize=9)
    return figure


def _draw_legends(figure, panels, groups):
    """One legend where all panels have the same lines, or one for each."""
    labels = {tuple(shortened(group)) for group in groups.values()}
    if len(labels) > 1:
        for axes in panels[: len(groups)]:
            axes.legend(fontsize=7)
        return
    (names,) = labels
    widest = max(map(len, names))
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        title=common_part(next(iter(groups.values()))),
        title_fontsize=8,
        fontsize=8,
        loc="outside upper center",
        ncols=min(len(names), max(1, 48 // (widest + 7))),
        frameon=False,
    )


def check_any(things):
    """Raises a `ValueError` where there is nothing to draw."""
    if not things:
        raise ValueError(
            "A dictionary with an entry or more is expected, such as "
            f"`attention_weights` returns. Received: {things!r}"
        )
