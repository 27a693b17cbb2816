"""Which heads do without comparing tokens."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_synth.surgery.grafting import graft
from keras_synth.surgery.observing import Sums
from keras_synth.surgery.stacks import blocks_of
from keras_synth.surgery.static_heads import Fitted

_ON = 40.0  # a softmax of (40, -40) is (1, 0) in float32

Chosen = list[list[int]]


def least_dependent(sums: list[Sums], number: int) -> Chosen:
    """Returns the heads that depend least on their input.

    Args:
        sums: The `Sums` of each block.
        number: Integer, how many.

    Returns:
        A sorted list of heads for each block.
    """
    dependence = np.stack([own.input_dependence() for own in sums])
    order = np.argsort(dependence, axis=None, kind="stable")[:number]
    pairs = [divmod(int(place), dependence.shape[1]) for place in order]
    return by_block(pairs, len(sums))


def by_block(pairs: Sequence[tuple[int, int]], blocks: int) -> Chosen:
    """Returns pairs (block, head) as a sorted list of heads for each block."""
    return [sorted({h for b, h in pairs if b == i}) for i in range(blocks)]


class Trial:
    """A model whose heads can be switched, without making another.

    It has both kinds of heads, mixed by alphas that are 0 or 1.

    Args:
        teacher: Backbone whose blocks compare tokens.
        to: String, the other kind.
        fitted: The `Fitted` of each block, of all heads.

    Attributes:
        model: Backbone.
    """

    def __init__(self, teacher: Any, to: str, fitted: list[Fitted]) -> None:
        self.model = graft(teacher, f"{to} + V")
        for block, other, own in zip(
            blocks_of(self.model), blocks_of(teacher), fitted, strict=True
        ):
            static, compared = block.attention.synthesizer.synthesizers
            own.put(static, own.heads)
            compared.query.set_weights(
                other.attention.synthesizer.query.get_weights()
            )

    def switch(self, chosen: Chosen) -> None:
        """Makes the chosen heads static, and no others."""
        for block, heads in zip(blocks_of(self.model), chosen, strict=True):
            mixture = block.attention.synthesizer
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
    """Returns heads chosen by what becomes of the model without them.

    Each head is tried beside those chosen so far; the `step` whose scores are
    the best are chosen, and so on.

    Args:
        trial: `Trial`.
        number: Integer, how many.
        score: Function that returns a number, higher is better, of the trial
            as it is switched.
        step: Integer, how many heads to choose between trials.
        progress: As for `static_heads.fit`.

    Returns:
        A sorted list of heads for each block.
    """
    blocks, heads = len(blocks_of(trial.model)), trial.model.num_heads
    rest = [(block, head) for block in range(blocks) for head in range(heads)]
    rounds = -(-number // step)
    tick = progress(sum(len(rest) - i * step for i in range(rounds)))
    chosen: list[tuple[int, int]] = []
    while len(chosen) < number:
        scores = []
        for pair in rest:
            trial.switch(by_block([*chosen, pair], blocks))
            scores.append(_number(score()))
            tick()
        room = min(step, number - len(chosen))
        best = np.argsort(-np.array(scores), kind="stable")[:room]
        chosen += [rest[i] for i in best]
        rest = [pair for pair in rest if pair not in chosen]
    return by_block(chosen, blocks)


def _number(score):
    try:
        value = float(score)
    except (TypeError, ValueError):
        value = float("nan")
    if not np.isfinite(value):
        raise ValueError(
            "`score` must return a finite number, the higher the better. "
            f"Received: {score!r}"
        )
    return value
