"""`synthesize`: replace attention heads by synthesizers."""

import operator
from collections.abc import Iterator, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from keras_synth._backend.internals import compiled_like
from keras_synth.folding.synthesizers import copy_variables
from keras_synth.surgery.observing import averages_of, batches
from keras_synth.surgery.replacing import copy_heads, exact, replaced
from keras_synth.surgery.static_heads import checked_kind, fit
from keras_synth.synthesizers import DenseSynthesizer
from keras_synth.types import Identifier


def synthesize(
    model: Any,
    data: Any,
    heads: float = 0.5,
    to: Identifier = "R",
    by: str | Sequence[tuple[int, int]] = "input_dependence",
    max_length: int | None = None,
) -> Any:
    """Returns a trained model, some of whose heads no longer compare tokens.

    The other heads keep their queries and keys. The original model does not
    change. Distill or train the result to reduce its difference from the
    original.

    Each replacement is fitted to the model's weights `A` on `data`, between
    real tokens:

    - `"R"`: a table of positions, the logarithm of the average weights. For
      samples of equal length, and in decoders, it minimises the mean of
      `KL(A[i] || softmax(S[i]))` over rows; otherwise, the average of a pair
      of positions is over the samples that reach it. A pair without samples
      gets the average of the nearest distance with samples.
    - `"FR(rank=...)"`: factors of this table, its truncated singular value
      decomposition.
    - `"D"`: a Dense synthesizer, trained by Adam on the model's rows and the
      inputs of attention, in one or several passes over `data`. Unlike a
      table, it depends on the token of the row and on the results of the
      blocks below, such as the distance of the last separator.

    Args:
        model: See `graft`.
        data: Arrays of the model's inputs; texts, or a tuple of two columns of
            them for pairs, if it has a preprocessor; or an iterable of such
            batches. A few thousand sequences are enough. They are read once,
            or several times for `"D"`.
        heads: Fraction of all heads, from 0.0 to 1.0; or an integer, their
            number. Not used if `by` has pairs.
        to: String, the replacement, see above.
        by: `"input_dependence"`: heads whose weights depend least on the
            input, `sum (A - mean A)^2 / sum A^2`. Or pairs of an attention
            layer and a head, both from 0 on, with layers in order of their
            calls; layers of a decoder come after the encoder's.
        max_length: Integer, `N`, the length of the longest sequence, in
            tokens; by default the model's own.

    Returns:
        See `graft`.

    Raises:
        ValueError: See `graft`; if `heads`, `to` or `by` have other values, or
            `data` have no batch, or sequences that are too long.

    Example:

    >>> import keras_hub
    >>> bert = keras_hub.models.BertBackbone(
    ...     100, num_layers=2, num_heads=2, hidden_dim=16,
    ...     intermediate_dim=32, max_sequence_length=24)
    >>> data = {name: np.ones((4, 12), "int32")
    ...         for name in ("token_ids", "segment_ids", "padding_mask")}
    >>> student = keras_synth.surgery.synthesize(bert, data, heads=0.5)
    >>> sum(w.shape[0] for w in student.weights if w.name == "R")
    2

    References:
        - [Hassid et al., 2022](https://arxiv.org/abs/2211.03495), averages of
          attention weights instead of attention
        - [Bick et al., 2024](https://arxiv.org/abs/2408.10189), matching
          attention matrices first
    """
    source = exact(model, max_length)
    kind = checked_kind(to, source)
    number = _checked_number(heads, source)
    chosen = _checked_heads(by, source)
    if isinstance(data, Iterator) and kind is DenseSynthesizer:
        data = [*data]  # it is gone over again

    def again():
        return batches(source.model, data)

    averages = averages_of(source, again())
    chosen = chosen or _least_dependent(averages, number)
    parts = fit(to, source, chosen, averages, again)
    each = [
        _identifier(len(own), place.attention.num_heads, to)
        for own, place in zip(chosen, source.places, strict=True)
    ]
    student = replaced(source, each, share_keys=False)
    for i, static in enumerate(chosen):
        if static:
            old, new = (x.places[i].attention for x in (source, student))
            compared = [x for x in range(old.num_heads) if x not in static]
            *groups, fitted = new.synthesizer.head_groups()
            v = groups[0] if groups else None
            copy_heads(old, new, v, np.array([*compared, *static]))
            copy_variables(parts[i], fitted)
    return compiled_like(model, student.model)


# --- arguments ----------------------------------------------------------------


def _checked_number(heads, source):
    total = sum(place.attention.num_heads for place in source.places)
    whole = isinstance(heads, Integral)
    if whole and not isinstance(heads, bool) and 0 <= heads <= total:
        return heads
    if not whole and isinstance(heads, Real) and 0 <= heads <= 1:
        return round(float(heads) * total)
    raise ValueError(
        "`heads` must be a fraction from 0.0 to 1.0, or a number up to "
        f"{total}. Received: heads={heads!r}"
    )


def _checked_heads(by, source):
    """A sorted list of heads for each attention layer, or `None`."""
    if isinstance(by, str) and by == "input_dependence":
        return None
    numbers = [place.attention.num_heads for place in source.places]
    known = {(i, head) for i, x in enumerate(numbers) for head in range(x)}
    try:
        pairs = [tuple(map(operator.index, pair)) for pair in by]
    except TypeError:
        pairs = None
    if isinstance(by, str) or pairs is None or not {*pairs} <= known:
        raise ValueError(
            '`by` must be "input_dependence" or pairs (layer, head). The '
            f"attention layers 0 to {len(numbers) - 1} have {numbers} "
            f"heads. Received: by={by!r}"
        )
    return _by_layer(pairs, len(numbers))


# --- the choice of heads ------------------------------------------------------


def _least_dependent(averages, number):
    """The heads that depend least on their input."""
    pairs = [
        (share, i, head)
        for i, own in enumerate(averages)
        for head, share in enumerate(own.input_dependence())
    ]
    pairs = sorted(pairs)[:number]
    return _by_layer([pair[1:] for pair in pairs], len(averages))


def _by_layer(pairs, layers):
    """Pairs (layer, head) as a sorted list of heads for each layer."""
    return [sorted({h for n, h in pairs if n == i}) for i in range(layers)]


# --- the model ----------------------------------------------------------------


def _identifier(static, heads, to):
    if static == 0:
        return "V"
    if static == heads:
        return to
    return f"heads({heads - static} * V + {static} * {to})"
