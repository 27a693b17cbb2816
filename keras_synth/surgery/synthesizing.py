"""`synthesize`: replace attention heads by synthesizers."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_synth._backend.checks import check_positive
from keras_synth.surgery.choosing import (
    Trial,
    by_layer,
    greedy,
    least_dependent,
)
from keras_synth.surgery.observing import as_inputs, batches, sums_of
from keras_synth.surgery.replacing import exact, replaced
from keras_synth.surgery.states import named_outputs, padding_of
from keras_synth.surgery.static_heads import checked_kind, fit
from keras_synth.synthesizers import DenseSynthesizer
from keras_synth.types import Identifier

_WAYS = ("input_dependence", "greedy")
_SAMPLES = 256  # for the default score, at least, if there are as many


def synthesize(
    model: Any,
    data: Any,
    heads: float = 0.5,
    to: Identifier = "R",
    by: str | Sequence[tuple[int, int]] = "input_dependence",
    max_length: int | None = None,
    score: Callable[[Any], float] | None = None,
    step: int = 6,
    verbose: int = 0,
) -> Any:
    """Returns a trained model, some of whose heads no longer compare tokens.

    The other heads keep their queries and keys. The original model does not
    change. Distill or train the result to reduce its difference from the
    original.

    Each replacement is fitted to the model's weights `A` on `data`, between
    real tokens. It minimises the mean of `KL(A[i] || softmax(S[i]))` over rows:

    - `"R"`: a table of positions. Without padding, and in decoders, it is the
      logarithm of the average weights; see below. A pair of positions without
      samples gets the average of the nearest distance with samples.
    - `"FR(rank=...)"`: factors with the closest weights to this table, by the
      same measure. Training begins with its truncated singular value
      decomposition.
    - `"D"`: a Dense synthesizer, trained by Adam on the model's rows and the
      inputs of attention, in one or several passes over `data`. Unlike a
      table, it depends on the token of the row and on the results of the
      blocks below, such as the distance of the last separator.

    If samples are padded, the average does not minimise the divergence: the
    average at position j includes only longer samples, whose weights are
    spread over more tokens. The table is then that of a choice model (Hunter,
    2004), computed from the same sums.

    Args:
        model: See `graft`.
        data: Arrays of the model's inputs, texts if it has a preprocessor, or
            an iterable of such batches. A few thousand sequences are enough.
            They are read once, or several times for `"D"`.
        heads: Fraction of all heads, from 0.0 to 1.0; or an integer, their
            number. Not used if `by` has pairs.
        to: String, the replacement, see above.
        by: `"input_dependence"`: heads whose weights depend least on the
            input, `sum (A - mean A)^2 / sum A^2`. `"greedy"`: heads without
            which `score` stays highest, each tried together with those chosen
            before. Or pairs of an attention layer and a head, both from 0 on,
            with layers in order of their calls; layers of a decoder come
            after the encoder's.
        max_length: Integer, `N`, the length of the longest sequence, in
            tokens; by default the model's own.
        score: Function for `"greedy"` of a model of the returned class. It
            returns a number, such as a metric on examples outside the test
            set; higher is better. Each call gets the same model in another
            state, so the function must not train or keep it. By default, the
            score is minus the mean squared difference of the outputs of the
            two models on the first 256 samples of `data`.
        step: Integer, the number of heads that `"greedy"` chooses in each
            round of trials. 36 of 72 heads take 342 trials with `step=6`, and
            1,962 with `step=1`.
        verbose: Integer, 1 to show progress, otherwise 0.

    Returns:
        See `graft`.

    Raises:
        ValueError: See `graft`; if `heads`, `to`, `by` or `score` have other
            values, or `data` have no batch, or sequences that are too long.

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

    Choose heads by a custom score:

    >>> student = keras_synth.surgery.synthesize(
    ...     bert, data, heads=2, to="FR(rank=4)", by="greedy", step=1,
    ...     score=lambda student: -float(keras.ops.var(
    ...         student(data)["sequence_output"])))

    References:
        - [Hassid et al., 2022](https://arxiv.org/abs/2211.03495), averages of
          attention weights instead of attention
        - [Hunter, 2004](https://doi.org/10.1214/aos/1079120141), choices among
          more or fewer items: tables from samples of unequal lengths
        - [Bick et al., 2024](https://arxiv.org/abs/2408.10189), matching
          attention matrices first
        - [Michel et al., 2019](https://arxiv.org/abs/1905.10650), greedy
          removal of heads
    """
    source = exact(model, max_length)
    _check_lengths(source)
    kind = checked_kind(to, source)
    check_positive("step", step)
    pairs = _checked_ways(by, score)
    number = _checked_number(heads, source)
    chosen = None if pairs is None else _checked_heads(pairs, source)
    progress = _progress(verbose)
    if isinstance(data, Iterator) and (
        kind is DenseSynthesizer or by == _WAYS[1]
    ):
        data = [*data]  # it is gone over again

    def again():
        return batches(source.model, data)

    sums = sums_of(source, again(), progress(None))

    def fitted(chosen):
        return fit(to, source, chosen, sums, again, progress)

    if by == "greedy":
        everything = [[*range(x.attention.num_heads)] for x in source.places]
        parts = fitted(everything)
        trial = Trial(source, to, parts)
        scored = _scored(trial, score, source.model, again)
        chosen = greedy(trial, number, scored, step, progress)
    else:
        chosen = chosen or least_dependent(sums, number)
        parts = fitted(chosen)
    each = [
        _identifier(len(own), place.attention.num_heads, to)
        for own, place in zip(chosen, source.places, strict=True)
    ]
    student = replaced(source, each)
    for i, static in enumerate(chosen):
        if static:
            mine, theirs = (x.places[i].attention for x in (student, source))
            _fill(mine, theirs, static, parts[i])
    return student.model


# --- arguments ----------------------------------------------------------------


def _checked_ways(by, score):
    """The pairs in `by`, or `None`."""
    if score is not None and (by != "greedy" or not callable(score)):
        raise ValueError(
            '`score` must be a function of a model, for by="greedy". Received: '
            f"score={score!r}, by={by!r}"
        )
    if not isinstance(by, str):
        return [*by]
    if by not in _WAYS:
        raise ValueError(
            f"`by` must be one of {_WAYS}, or a list of pairs (layer, head). "
            f"Received: by={by!r}"
        )
    return None


def _check_lengths(source):
    if any(place.max_length is None for place in source.places):
        raise ValueError(
            "The model accepts sequences of any length, but a table does not. "
            "Specify how long they may be, as in max_length=512. "
            "Received: max_length=None"
        )


def _checked_number(heads, source):
    total = sum(place.attention.num_heads for place in source.places)
    whole = isinstance(heads, int) and not isinstance(heads, bool)
    if whole and 0 <= heads <= total:
        return heads
    if isinstance(heads, float) and 0 <= heads <= 1:
        return round(heads * total)
    raise ValueError(
        "`heads` must be a fraction from 0.0 to 1.0, or a number up to "
        f"{total}. Received: heads={heads!r}"
    )


def _checked_heads(pairs, source):
    """A sorted list of heads for each attention layer."""
    numbers = [place.attention.num_heads for place in source.places]
    for pair in pairs:
        inside = (
            isinstance(pair, (tuple, list))
            and len(pair) == 2
            and 0 <= pair[0] < len(numbers)
            and 0 <= pair[1] < numbers[pair[0]]
        )
        if not inside:
            raise ValueError(
                "`by` must be pairs (layer, head). The attention layers 0 to "
                f"{len(numbers) - 1} have {numbers} heads. Received: {pair}"
            )
    return by_layer(pairs, len(numbers))


def _progress(verbose):
    """Returns a function that shows a number of steps, `None` if unknown.

    It returns a function to call after each step.
    """

    def bar(steps):
        if not verbose:
            return lambda: None
        shown = keras.utils.Progbar(steps, unit_name="step")
        return lambda: shown.add(1)

    return bar


# --- the default score --------------------------------------------------------


def _scored(trial, score, teacher, data):
    """A function without arguments that scores a trial."""
    if score is not None:
        return lambda: score(trial.model)
    samples: list = []
    for batch in data():
        samples.append(batch)
        if sum(len(next(iter(x.values()))) for x in samples) >= _SAMPLES:
            break
    # Graphs, which do not accept texts or labels.
    graphs = [keras.Model(x.input, x.output) for x in (teacher, trial.model)]
    expected = [_outputs(teacher, graphs[0], batch) for batch in samples]

    def likeness():
        squares = tokens = 0.0
        for batch, outputs in zip(samples, expected, strict=True):
            found = _outputs(trial.model, graphs[1], batch)
            for ours, theirs in zip(found, outputs, strict=True):
                squares += float(np.square(ours - theirs).sum())
                tokens += theirs.size
        return -squares / tokens

    return likeness


def _outputs(model, graph, batch):
    """A list of outputs; of hidden states only real tokens."""
    found = graph.predict_on_batch(as_inputs(model, batch))
    outputs = named_outputs(model, found)
    masks = padding_of(outputs, batch)
    return [
        x if masks[name] is None else x[batch[masks[name]].astype(bool)]
        for name, x in outputs.items()
    ]


# --- the model ----------------------------------------------------------------


def _identifier(static, heads, to):
    if static == 0:
        return "V"
    if static == heads:
        return to
    return f"heads({heads - static} * V + {static} * {to})"


def _fill(mine, theirs, static, part):
    """Assigns heads to an attention layer, the static ones last."""
    compared = [i for i in range(theirs.num_heads) if i not in static]
    order = compared + static
    for name in ("value", "gate"):
        if getattr(theirs, name) is not None:
            _take(getattr(mine, name), getattr(theirs, name), 1, 0, order)
    _take(mine.attention_output, theirs.attention_output, 0, None, order)
    groups = list(mine.synthesizer.head_groups())
    part.put(groups.pop(), static)
    for group in groups:
        for name in ("query", "key"):
            layers = getattr(group, name), getattr(theirs.synthesizer, name)
            _take(*layers, 1, 0, compared)


def _take(mine, theirs, kernel_axis, bias_axis, heads):
    """Copies some heads of a projection, or a bias without heads."""
    mine.kernel.assign(
        np.take(ops.convert_to_numpy(theirs.kernel), heads, kernel_axis)
    )
    if theirs.bias is not None:
        bias = ops.convert_to_numpy(theirs.bias)
        if bias_axis is not None:
            bias = np.take(bias, heads, bias_axis)
        mine.bias.assign(bias)
