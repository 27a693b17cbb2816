"""Pictures of attention, by Matplotlib.

Each function returns a `matplotlib.figure.Figure`: `savefig` writes it, and
notebooks show it. Pictures are as narrow as a phone, on white ground, in
colours that colour-blind people tell apart.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_synth.analysis.learned import mixtures
from keras_synth.analysis.panels import (
    COLORS,
    WIDTH,
    check_any,
    draw_lines,
    draw_matrix,
    new_figure,
    shown_length,
    write_tokens,
)
from keras_synth.analysis.short_names import shortened
from keras_synth.analysis.statistics import AttentionStatistics

HATCHES = "", "///", "...", "xx", "\\\\"

Statistics = Mapping[str, AttentionStatistics]


def plot_attention(
    weights: np.ndarray,
    tokens: Sequence[str] | None = None,
    source_tokens: Sequence[str] | None = None,
    heads: Sequence[int] | None = None,
) -> Any:
    """Draws the weights of a sample, a panel for each head.

    Small weights are shown beside large ones: colours follow square roots.

    Args:
        weights: Array `(H, T, S)` or `(T, S)`.
        tokens: Strings, the T tokens that attend, written beside the rows; the
            first of them where there are fewer than rows, so that padding is
            cut off.
        source_tokens: Strings, likewise the S tokens that are attended to; by
            default `tokens`, where T is S.
        heads: Integers, the heads to draw; all by default.

    Returns:
        `matplotlib.figure.Figure`.

    Raises:
        ValueError: If the shapes do not fit each other.

    Example:

    >>> weights = np.full((2, 3, 3), 1 / 3)
    >>> picture = keras_synth.analysis.plot_attention(
    ...     weights, tokens=["to", "be", "or"])
    >>> picture.savefig("attention.png")
    """
    weights = np.asarray(weights)
    weights = weights[None] if weights.ndim == 2 else weights
    if weights.ndim != 3:
        raise ValueError(
            "The weights of one sample are expected, (H, T, S) or (T, S). "
            f"Received: weights.shape={weights.shape}"
        )
    if source_tokens is None and weights.shape[1] == weights.shape[2]:
        source_tokens = tokens
    chosen = range(len(weights)) if heads is None else heads
    if not {*chosen} <= {*range(len(weights))}:
        raise ValueError(
            f"There are heads 0 to {len(weights) - 1}. Received: heads={heads}"
        )
    rows, columns = weights.shape[1:]
    rows = shown_length("tokens", tokens, rows)
    columns = shown_length("source_tokens", source_tokens, columns)
    across = min(2, len(chosen))
    down = -(-len(chosen) // across)
    height = WIDTH / across * min(2.0, max(0.6, rows / columns)) + 0.5
    figure, panels = new_figure(down, across, down * height)
    for axes, head in itertools.zip_longest(panels.flat, chosen):
        if head is None:
            axes.set_axis_off()
            continue
        draw_matrix(axes, weights[head, :rows, :columns])
        if len(weights) > 1:
            axes.set_title(f"head {head}", fontsize=9)
        if axes in panels[:, 0]:
            write_tokens(axes.set_yticks, tokens, 0)
        write_tokens(axes.set_xticks, source_tokens, 90)
    return figure


def plot_heads(weights: Mapping[str, np.ndarray], sample: int = 0) -> Any:
    """Draws all heads of all layers on one sheet, a row for each layer.

    Args:
        weights: Dictionary from names of layers to arrays `(B, H, T, S)`, as
            `attention_weights` returns it, or `(H, T, S)`, such as averages.
        sample: Integer, which of the batch to draw.

    Returns:
        `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there is nothing to draw, or no such sample.

    Example:

    >>> weights = {"layer_0": np.full((4, 8, 8), 1 / 8),
    ...            "layer_1": np.eye(8)[None].repeat(4, 0)}
    >>> len(keras_synth.analysis.plot_heads(weights).axes)
    8
    """
    check_any(weights)
    sheets = {}
    for name, own in weights.items():
        own = np.asarray(own)
        if own.ndim == 4 and not -len(own) <= sample < len(own):
            raise ValueError(
                f"The batch has {len(own)} samples. Received: sample={sample}"
            )
        sheets[name] = own[sample] if own.ndim == 4 else own
    most = max(len(own) for own in sheets.values())
    size = WIDTH / (most + 1)
    figure, panels = new_figure(len(sheets), most, len(sheets) * size + 0.4)
    labels = shortened(sheets)
    for line, label, own in zip(panels, labels, sheets.values(), strict=True):
        for head, axes in enumerate(line):
            if head >= len(own):
                axes.set_axis_off()
                continue
            draw_matrix(axes, own[head])
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
    """Draws how often weights are how large, a line for each layer.

    Args:
        statistics: Dictionary from names to `AttentionStatistics`, as
            `attention_statistics` returns it; or one from titles to such
            dictionaries, for a panel each.

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

    def draw(axes, own, crowded, **style):
        edges, counts = own.histogram()
        counts = counts.sum(0)
        shares = counts / max(counts.sum(), 1)
        axes.stairs(shares, edges, baseline=None, lw=1.6, **style)
        axes.set_xscale("log")
        axes.set_xlim(max(edges[1] / 2, 1e-6), edges[-1])

    return draw_lines(
        statistics, draw, "attention weight", "share of all pairs"
    )


def plot_distance_profile(
    statistics: Statistics | Mapping[str, Statistics],
    reach: int | None = None,
) -> Any:
    """Draws the average weight at each distance, a line for each layer.

    Lines are means over heads; where there are up to three in a panel, bands
    go from the least to the largest head.

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

    def draw(axes, own, crowded, color, linestyle, label):
        places, means = own.distance_profile()
        if reach is not None:
            near = abs(places) <= reach
            places, means = places[near], means[:, near]
        if not crowded:
            band = means.min(0), means.max(0)
            axes.fill_between(places, *band, color=color, alpha=0.15, lw=0)
        axes.plot(
            places, means.mean(0), c=color, ls=linestyle, lw=1.6, label=label
        )

    return draw_lines(statistics, draw, "distance j - i, tokens", "mean weight")


def plot_input_dependence(statistics: Statistics) -> Any:
    """Draws how much the weights of each head depend on the input.

    Args:
        statistics: Dictionary from names of layers to `AttentionStatistics`.

    Returns:
        `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there is nothing to draw.

    Example:

    >>> statistics = keras_synth.analysis.AttentionStatistics(num_heads=2)
    >>> statistics.add(np.random.default_rng(0).random((4, 2, 8, 8)))
    >>> picture = keras_synth.analysis.plot_input_dependence({"0": statistics})
    >>> len(picture.axes)
    2
    """
    check_any(statistics)
    rows = [own.input_dependence() for own in statistics.values()]
    values = np.full((len(rows), max(map(len, rows))), np.nan)
    for line, row in zip(values, rows, strict=True):
        line[: len(row)] = row
    figure, panels = new_figure(1, 1, 0.36 * len(rows) + 1.2)
    axes = panels[0, 0]
    shown = axes.imshow(
        values,
        cmap="cividis",
        vmin=0,
        vmax=max(0.2, np.nanmax(values)),
        aspect="auto",
    )
    axes.set_yticks(range(len(rows)), shortened(statistics), fontsize=9)
    axes.set_xticks(range(values.shape[1]))
    axes.set_xlabel("head")
    for (i, j), value in np.ndenumerate(values):
        if np.isfinite(value):
            dark = value < shown.norm.vmax / 2
            axes.text(
                j,
                i,
                f"{value:.2f}".removeprefix("0"),
                ha="center",
                va="center",
                fontsize=8,
                color="white" if dark else "black",
            )
    bar = figure.colorbar(shown, orientation="horizontal", aspect=40)
    bar.set_label("input dependence of the weights", fontsize=9)
    return figure


def plot_alphas(model: Any) -> Any:
    """Draws how a model's mixtures weigh their parts, a bar for each head.

    Args:
        model: Keras model or layer with mixtures, such as `"R+V"`.

    Returns:
        `matplotlib.figure.Figure`, a panel for each mixture.

    Raises:
        ValueError: If there are no mixtures with alphas.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     4, 8, synthesizer="R+V", max_length=16)
    >>> layer.build((None, None, 32))
    >>> len(keras_synth.analysis.plot_alphas(layer).axes)
    1
    """
    found = mixtures(model)
    if not found:
        raise ValueError(
            'A built model with mixtures is expected, such as "R+V", whose '
            f"alphas are learned. Received: {model!r}"
        )
    figure, panels = new_figure(len(found), 1, 1.1 * len(found) + 0.9)
    pairs = zip(panels[:, 0], shortened(found), found.values(), strict=True)
    for axes, label, (names, shares) in pairs:
        below = np.zeros(shares.shape[1])
        for i, (part, own) in enumerate(zip(names, shares, strict=True)):
            axes.bar(
                range(len(own)),
                own,
                bottom=below,
                color=COLORS[i % len(COLORS)],
                hatch=HATCHES[i % len(HATCHES)],
                edgecolor="white",
                label=part,
            )
            below = below + own
        axes.set_ylim(0, 1)
        axes.set_xticks(range(shares.shape[1]))
        axes.set_ylabel(label, fontsize=9, rotation=0, ha="right")
        if axes is panels[0, 0] or names != next(iter(found.values()))[0]:
            axes.legend(
                fontsize=8,
                ncols=len(names),
                loc="lower center",
                bbox_to_anchor=(0.5, 1),
                frameon=False,
            )
    panels[-1, 0].set_xlabel("head")
    return figure
