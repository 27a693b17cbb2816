"""`synthesize`: attention heads become tables of what they do on average."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_synth.analysis.averages import averages
from keras_synth.models import SynthesizerBackbone
from keras_synth.surgery.grafting import checked_length, graft
from keras_synth.synthesizers import (
    FactorizedRandomSynthesizer,
    RandomSynthesizer,
)
from keras_synth.types import Identifier


def synthesize(
    model: Any,
    data: Any,
    heads: float = 0.5,
    to: Identifier = "R",
    by: str | Sequence[tuple[int, int]] = "input_dependence",
    max_length: int | None = None,
) -> SynthesizerBackbone:
    """Returns a trained model, some of whose heads no longer compare tokens.

    Each chosen head becomes a table of positions: the logarithm of the
    attention weights that the model gives on average, over the samples in
    which both tokens are real. The other heads stay as they are, with their
    own queries and keys. The model itself is left as it is. Distilled, or
    trained on, the result comes closer to it.

    Args:
        model: As for `graft`.
        data: The model's inputs, a dictionary of arrays or an iterable of
            such batches; a few thousand sequences will do.
        heads: Share of all heads to choose, from 0 to 1; or an integer, how
            many.
        to: `"R"`, tables `(N, N)`; or `"FR(rank=...)"`, their best
            approximation of that rank.
        by: `"input_dependence"`: those whose weights depend least on the
            input, `sum (A - mean A)^2 / sum A^2`; or pairs of a block and a
            head, both from 0 on.
        max_length: Integer, `N`, the longest sequence to come, in tokens; the
            model's own by default.

    Returns:
        `SynthesizerBackbone`.

    Raises:
        ValueError: As `graft` does; if `heads`, `to` or `by` are none of
            these, or `data` have no batch, or sequences that are too long.

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
          attention weights in the place of attention.
    """
    teacher = graft(model, "V")
    length = checked_length(max_length, teacher.max_sequence_length)
    chosen = None
    if not isinstance(by, str):
        chosen = _checked_heads(by, teacher)
    elif by != "input_dependence":
        raise ValueError(
            '`by` must be "input_dependence" or a list of pairs (block, head). '
            f"Received: by={by!r}"
        )
    number = _number(heads, teacher)
    found = averages(teacher, data, length)
    if chosen is None:
        chosen = _least_dependent(found, number)
    student = _student(teacher, chosen, to, length)
    _fill(student, teacher, chosen, found)
    return student


# --- which heads --------------------------------------------------------------


def _number(heads, model):
    total = model.num_layers * model.num_heads
    whole = isinstance(heads, int) and not isinstance(heads, bool)
    if whole and 0 <= heads <= total:
        return heads
    if isinstance(heads, float) and 0 <= heads <= 1:
        return round(heads * total)
    raise ValueError(
        f"`heads` must be a share from 0.0 to 1.0, or a number up to {total}. "
        f"Received: heads={heads!r}"
    )


def _checked_heads(pairs, model):
    """A set of heads for each block."""
    chosen = [set() for _ in range(model.num_layers)]
    for pair in pairs:
        block, head = pair if len(tuple(pair)) == 2 else (-1, -1)
        inside = 0 <= block < model.num_layers and 0 <= head < model.num_heads
        if not inside:
            raise ValueError(
                f"There are blocks 0 to {model.num_layers - 1} of heads 0 to "
                f"{model.num_heads - 1}. Received: {tuple(pair)}"
            )
        chosen[block].add(head)
    return chosen


def _least_dependent(found, number):
    dependence = np.stack([own.input_dependence() for own in found])
    order = np.argsort(dependence, axis=None, kind="stable")[:number]
    chosen = [set() for _ in found]
    for place in order:
        block, head = divmod(int(place), dependence.shape[1])
        chosen[block].add(head)
    return chosen


# --- the model ----------------------------------------------------------------


def _student(teacher, chosen, to, length):
    config = teacher.get_config()
    config["max_sequence_length"] = length
    config["name"] = f"{teacher.name.removesuffix('_grafted')}_synthesized"
    config["synthesizer"] = [
        _identifier(len(own), teacher.num_heads, to) for own in chosen
    ]
    student = SynthesizerBackbone.from_config(config)
    for block, own in zip(student.stack.blocks, chosen, strict=True):
        kinds = RandomSynthesizer, FactorizedRandomSynthesizer
        table = block.attention.synthesizer.head_groups()[-1]
        if own and not isinstance(table, kinds):
            raise ValueError(
                '`to` must be "R" or "FR(rank=...)": tables that averages can '
                f"be put into. Received: to={to!r}"
            )
    return student


def _identifier(tables, heads, to):
    if tables == 0:
        return "V"
    if tables == heads:
        return to
    return f"heads({heads - tables} * V + {tables} * {to})"


def _fill(student, teacher, chosen, found):
    """Gives the student its weights."""
    own = {weight.path: weight for weight in student.weights}
    blocks = zip(
        student.stack.blocks, teacher.stack.blocks, chosen, found, strict=True
    )
    done = set()
    for block, other, tables, average in blocks:
        fixed = sorted(tables)
        order = [i for i in range(teacher.num_heads) if i not in tables]
        compared, order = order, order + fixed
        mine, theirs = block.attention, other.attention
        _take(mine.value, theirs.value, 1, 0, order)
        _take(mine.attention_output, theirs.attention_output, 0, None, order)
        *with_v, last = mine.synthesizer.head_groups()
        if not fixed:
            with_v = [last]
        for part in with_v:
            for name in ("query", "key"):
                layers = getattr(part, name), getattr(theirs.synthesizer, name)
                _take(*layers, 1, 0, compared)
        if fixed:
            _put(last, average.tables()[fixed])
        done |= {weight.path for weight in mine.weights}
    for weight in teacher.weights:
        if weight.path in own and weight.path not in done:
            target = own[weight.path]
            value = ops.convert_to_numpy(weight)
            # Positions beyond the student's are left out.
            target.assign(value[tuple(slice(n) for n in target.shape)])


def _take(mine, theirs, kernel_axis, bias_axis, heads):
    """Gives a projection some heads of another; all of a bias without any."""
    mine.kernel.assign(
        np.take(ops.convert_to_numpy(theirs.kernel), heads, kernel_axis)
    )
    if theirs.bias is not None:
        bias = ops.convert_to_numpy(theirs.bias)
        if bias_axis is not None:
            bias = np.take(bias, heads, bias_axis)
        mine.bias.assign(bias)


def _put(synthesizer, tables):
    """Gives R its tables, and FR their best approximation of its rank."""
    if isinstance(synthesizer, RandomSynthesizer):
        synthesizer.R.assign(tables)
        return
    left, sizes, right = np.linalg.svd(tables, full_matrices=False)
    rank = synthesizer.rank
    root = np.sqrt(sizes[:, None, :rank])
    synthesizer.R1.assign(left[:, :, :rank] * root)
    synthesizer.R2.assign(np.swapaxes(right[:, :rank], 1, 2) * root)
