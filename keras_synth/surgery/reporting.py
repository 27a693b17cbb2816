"""`report`: inspect a model before it is changed."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from keras_synth.analysis import multiplications
from keras_synth.layers import SyntheticAttention
from keras_synth.surgery.observing import averages_of, batches
from keras_synth.surgery.replacing import exact


class Row(NamedTuple):
    """An attention layer of a model.

    Fields:
        number: Integer, its number in `graft` and `synthesize`.
        path: String, its path in the model.
        kind: String, its class.
        becomes: String, the class of its replacement.
        input_dependence: Array `(H,)`, how much the weights of each head
            depend on the input, from 0 to 1.
        saved: Integer, multiplications of a sample that each head saves if it
            becomes a table.
        total: Integer, multiplications of a sample in the layer now.
    """

    number: int
    path: str
    kind: str
    becomes: str
    input_dependence: np.ndarray
    saved: int
    total: int


@dataclasses.dataclass(frozen=True, repr=False)
class Report:
    """The result of `report`. Its `str` is a table.

    Fields:
        rows: List of `Row`, one for each attention layer.
        length: Integer, the longest sequence of the data, in tokens, for
            which multiplications are counted.
    """

    rows: list[Row]
    length: int

    def __str__(self) -> str:
        heads = np.concatenate([row.input_dependence for row in self.rows])
        table = [
            ("", "layer", "becomes", "input dependence", "saved by a head")
        ]
        for row in self.rows:
            shares = " ".join(f"{x:.2f}" for x in row.input_dependence)
            saved = f"{row.saved:,} ({row.saved / row.total:.1%})"
            kind = f"{row.path} ({row.kind})"
            table.append((str(row.number), kind, row.becomes, shares, saved))
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  ".join(map(str.ljust, line, widths)).rstrip() for line in table
        ]
        below = int((heads < 0.2).sum())
        return "\n".join(
            [
                f"{len(self.rows)} attention layers, {len(heads)} heads; "
                f"{below} with an input dependence below 0.20",
                *lines,
                "saved by a head: multiplications of a sequence of "
                f"{self.length} tokens, and their share of the layer's",
            ]
        )

    __repr__ = __str__


def report(model: Any, data: Any, max_length: int | None = None) -> Report:
    """Returns a table of attention layers and their replacements.

    The model does not change. `synthesize` replaces heads with low input
    dependence, `sum (A - mean A)^2 / sum A^2`, first.

    Args:
        model: See `graft`.
        data: See `synthesize`; a few hundred sequences are enough.
        max_length: See `graft`.

    Returns:
        `Report`. Print it, or read its `rows`.

    Raises:
        ValueError: See `synthesize`.

    Example:

    >>> import keras_hub
    >>> bert = keras_hub.models.BertBackbone(
    ...     100, num_layers=2, num_heads=2, hidden_dim=16,
    ...     intermediate_dim=32, max_sequence_length=24)
    >>> data = {name: np.ones((4, 12), "int32")
    ...         for name in ("token_ids", "segment_ids", "padding_mask")}
    >>> found = keras_synth.surgery.report(bert, data)
    >>> print(str(found).splitlines()[0])
    2 attention layers, 4 heads; 4 with an input dependence below 0.20
    >>> found.rows[0].saved
    4224
    """
    source = exact(model, max_length)
    averages = averages_of(source, batches(source.model, data))
    seen = [x.counts[0].any(axis=1) for x in averages]
    lengths = [int(np.flatnonzero(rows)[-1]) + 1 for rows in seen if rows.any()]
    if not lengths:
        raise ValueError("`data` must have real tokens. Received: only padding")
    return Report(
        [
            _row(number, place, own, max(lengths))
            for number, (place, own) in enumerate(
                zip(source.places, averages, strict=True)
            )
        ],
        max(lengths),
    )


def _row(number, place, averages, length):
    attention = place.attention
    table = SyntheticAttention.from_config(
        {
            **attention.get_config(),
            "synthesizer": "R",
            "max_length": length,
            "num_key_value_heads": None,  # as `synthesize` makes it
        }
    )
    table.build_from_config(attention.get_build_config())
    before, after, total = (
        sum(multiplications(layer, length, length).values())
        for layer in (attention, table, place.holder)
    )
    return Row(
        number,
        place.origin.path,
        type(place.origin).__name__,
        type(place.holder).__name__,
        averages.input_dependence(),
        (before - after) // attention.num_heads,
        total,
    )
