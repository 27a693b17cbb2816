"""The choice of heads to replace."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_synth.surgery.grafting import grafted
from keras_synth.surgery.replacing import Exact
from keras_synth.surgery.static_heads import Fitted
from keras_synth.surgery.sums import Sums

_ON = 40.0  # a softmax of (40, -40) is (1, 0) in float32

Chosen = list[list[int]]


def least_dependent(sums: list[Sums], number: int) -> Chosen:
    """Returns the heads that depend least on their input."""
    pairs = [
        (share, i, head)
        for i, own in enumerate(sums)
        for head, share in enumerate(own.input_dependence())
    ]
    pairs = sorted(pairs)[:number]
    return by_layer([pair[1:] for pair in pairs], len(sums))


def by_layer(pairs: Sequence[tuple[int, int]], layers: int) -> Chosen:
    """Returns pairs (layer, head) as a sorted list of heads for each layer."""
    return [sorted({h for n, h in pairs if n == i}) for i in range(layers)]


class Trial:
    """A model with both kinds of heads, mixed by alphas that are 0 or 1.

    Args:
        source: `Exact`, whose layers compare tokens.
        to: String, the other kind.
        fitted: The `Fitted` of each place, of all heads.

    Attributes:
        model: The model.
    """

    def __init__(self, source: Exact, to: str, fitted: list[Fitted]) -> None:
        self._made = grafted(source, f"{to} + V", range(len(source.places)))
        self.model = self._made.model
        for mixture, place, own in zip(
            self._mixtures(), source.places, fitted, strict=True
        ):
            static, compared = mixture.synthesizers
            own.put(static, own.heads)
            compared.query.set_weights(
                place.attention.synthesizer.query.get_weights()
            )

    def _mixtures(self):
        return [place.attention.synthesizer for place in self._made.places]

    def heads(self) -> list[tuple[int, int]]:
        """Returns all pairs (layer, head)."""
        return [
            (i, head)
            for i, mixture in enumerate(self._mixtures())
            for head in range(mixture.num_heads)
        ]

    def switch(self, chosen: Chosen) -> None:
        """Makes the chosen heads static, and no others."""
        for mixture, heads in zip(self._mixtures(), chosen, strict=True):
            static = np.isin(np.arange(mixture.num_heads), heads)
            signs = np.stack([static, ~static]) * 2.0 - 1.0
            mixture.alphas.assign(_ON * signs)


def greedy(
    trial: Trial,
    number: int,
    score: Callable[[], float],
    step: int,
    progress: Callable[[int], Any],
) -> Chosen:
    """Returns heads chosen by the scores of the model without them.

    Each round tries every remaining head together with the chosen ones, and
    chooses the `step` heads with the best scores.
    """
    rest = trial.heads()
    layers = rest[-1][0] + 1
    rounds = -(-number // step)
    tick = progress(sum(len(rest) - i * step for i in range(rounds)))
    chosen: list[tuple[int, int]] = []
    while len(chosen) < number:
        scores = []
        for pair in rest:
            trial.switch(by_layer([*chosen, pair], layers))
            scores.append(_number(score()))
            tick()
        room = min(step, number - len(chosen))
        best = np.argsort(-np.array(scores), kind="stable")[:room]
        chosen += [rest[i] for i in best]
        rest = [pair for pair in rest if pair not in chosen]
    return by_layer(chosen, layers)


def _number(score):
    try:
        value = float(score)
    except (TypeError, ValueError):
        value = float("nan")
    if not np.isfinite(value):
        raise ValueError(
            "`score` must return a finite number; higher is better. "
            f"Received: {score!r}"
        )
    return value
