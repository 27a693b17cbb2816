"""Attention to look through, in a notebook or a page, by treescope."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def view_attention(
    weights: Mapping[str, np.ndarray],
    tokens: Sequence[str] | None = None,
    source_tokens: Sequence[str] | None = None,
    sample: int = 0,
) -> Any:
    """Returns a picture with sliders for layers and heads.

    The cell under the pointer shows its tokens and its weight. It needs the
    extra `interactive`. A notebook shows it; `treescope.render_to_html(view)`
    makes a page that loads nothing from elsewhere.

    Args:
        weights: Dictionary from names of layers to arrays `(B, H, T, S)`, as
            `attention_weights` returns it, or `(H, T, S)`; all of one shape.
        tokens: Strings, the T tokens that attend.
        source_tokens: Strings, the S tokens that are attended to; by default
            `tokens`, where T is S.
        sample: Integer, which of the batch to show.

    Returns:
        `treescope.figures.TreescopeFigure`.

    Raises:
        ValueError: If layers have other shapes than each other, or there are
            not as many tokens as rows or columns.

    Example:

    >>> import treescope
    >>> weights = {"layer_0": np.full((2, 3, 3), 1 / 3)}
    >>> view = keras_synth.analysis.view_attention(weights, ["to", "be", "or"])
    >>> "be" in treescope.render_to_html(view, compressed=False)
    True
    """
    try:
        import treescope
    except ImportError as error:
        raise ImportError(
            "Interactive views are treescope's: "
            "pip install 'keras-synth[interactive]'"
        ) from error
    sheets = [np.asarray(x) for x in weights.values()]
    sheets = [x[sample] if x.ndim == 4 else x for x in sheets]
    shapes = {x.shape for x in sheets}
    if len(shapes) != 1:
        raise ValueError(
            "Layers of the same heads and tokens are expected: choose them by "
            "`layers` of `attention_weights`. Received: shapes "
            f"{ {k: np.shape(x) for k, x in weights.items()} }"
        )
    ((_, rows, columns),) = shapes
    if source_tokens is None and rows == columns:
        source_tokens = tokens
    labels: dict[Any, list[str]] = {0: [*weights]}
    axes = (
        (2, "tokens", tokens, rows),
        (3, "source_tokens", source_tokens, columns),
    )
    for axis, name, given, length in axes:
        if given is not None and len(given) != length:
            raise ValueError(
                f"`{name}` must be {length} strings. Received: {len(given)}"
            )
        if given is not None:
            labels[axis] = [*given]
    return treescope.render_array(
        np.stack(sheets),
        sliders=(0, 1),
        rows=(2,),
        columns=(3,),
        vmin=0.0,
        around_zero=False,
        axis_labels={0: "layer", 1: "head", 2: "query", 3: "key"},
        axis_item_labels=labels,
        pixels_per_cell=14,
    )
