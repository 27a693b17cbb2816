"""`multiplications` of synthesizers, mixers and blocks.

A subclass uses the function of its nearest base class.
"""

import collections
import functools
import math

import numpy as np

from keras_synth import layers, synthesizers
from keras_synth.attention.masks import AttentionMask
from keras_synth.attention.positions import shortest
from keras_synth.folding import TableSynthesizer
from keras_synth.mixers import SyntheticAttention
from keras_synth.synthesizers.composite import CompositeSynthesizer
from keras_synth.synthesizers.dot_product import PairSynthesizer
from keras_synth.synthesizers.relative import DistanceSynthesizer
from keras_synth.types import Tensor


@functools.singledispatch
def multiplications(
    layer: Tensor,
    query_length: int,
    source_length: int,
    pairs: int | None = None,
) -> dict[str, int]:
    """Returns the number of multiplications for a sample, by parts.

    The count is for the formula without padding and causal masks: products of
    matrices and of pairs, and a division for each attention weight. Masks,
    biases, activations, normalisations, factors that scale a whole tensor and
    padding of blocks do not count. A block that several layers of a backbone
    share, as in a grafted ALBERT, counts once.

    Your own class counts like its base class, unless you register a function
    `(layer, query_length, source_length)` for it. For a synthesizer the
    function also needs `pairs=None`, the number of `T S` pairs that count.

    Args:
        layer: A built mixer, synthesizer, feed-forward layer, block, backbone
            or task of this library.
        query_length: Integer, `T`: tokens, in a translation model of the
            target.
        source_length: Integer, `S`: tokens of the source, equal to `T` for one
            sequence.
        pairs: Optional integer, for synthesizers: pairs that count, by default
            `T S`.

    Returns:
        Dictionary of integers for the parts of the layer: `"projections"` of
        tokens, `"logits"` of pairs, `"softmax"` or another normalizer,
        `"mixing"` of values, `"output"`, `"feed-forward"` and `"output layer"`.
        The output layer of a masked language model sees only hidden tokens, 15%
        of all.

    Raises:
        ValueError: If no function is registered for a class, a mixer is not
            built, or a sequence is too long for the layer.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     2, 4, synthesizer="FR", max_length=16)
    >>> layer.build((None, None, 8))
    >>> keras_synth.analysis.multiplications(layer, 10, 10)
    ... # doctest: +NORMALIZE_WHITESPACE
    {'projections': 640, 'softmax': 200, 'mixing': 800, 'output': 640,
     'logits': 1600}

    >>> class Twice(keras_synth.synthesizers.FactorizedRandomSynthesizer):
    ...     def call(self, query, **kwargs):
    ...         return super().call(query, **kwargs).scaled(2.0)
    >>> @keras_synth.analysis.multiplications.register(Twice)
    ... def count(layer, query_length, source_length, pairs=None):
    ...     pairs = query_length * source_length if pairs is None else pairs
    ...     return {"logits": layer.num_heads * pairs * (layer.rank + 1)}
    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     2, 4, synthesizer=Twice(2, 16, rank=8))
    >>> layer.build((None, None, 8))
    >>> keras_synth.analysis.multiplications(layer, 10, 10)["logits"]
    1800
    """
    name = type(layer).__name__
    more = ", pairs=None" if isinstance(layer, synthesizers.Synthesizer) else ""
    raise ValueError(
        f"No function counts the multiplications of {name}. Register one: "
        f"`@keras_synth.analysis.multiplications.register({name})` before `def "
        f"count(layer, query_length, source_length{more})`. Received: "
        f"{layer!r}"
    )


def of_dense(layer, tokens):
    """Multiplications of a dense layer, or `None`, for a number of tokens."""
    return 0 if layer is None else tokens * math.prod(layer.kernel.shape)


def added(*counts):
    """Adds dictionaries of counts."""
    total = collections.Counter()
    for count in counts:
        total.update(count)
    return {part: count for part, count in total.items() if count}


def of_layers(parts, queries, keys):
    """The sum of the multiplications of several layers."""
    return added(*(multiplications(x, queries, keys) for x in parts))


# --- logits: of `pairs` of T queries and S keys, of all by default ------------


@multiplications.register(DistanceSynthesizer)
@multiplications.register(synthesizers.RandomSynthesizer)
@multiplications.register(TableSynthesizer)
def _table(synthesizer, queries, keys, pairs=None):
    return {}


@multiplications.register(PairSynthesizer)
def _dot_product(synthesizer, queries, keys, pairs=None):
    pairs = _within(synthesizer, queries, keys, pairs)
    return {
        "projections": of_dense(synthesizer.query, queries)
        + of_dense(synthesizer.key, keys),
        "logits": synthesizer.num_heads * pairs * synthesizer.key_dim,
    }


@multiplications.register(synthesizers.DenseSynthesizer)
@multiplications.register(synthesizers.LocalDenseSynthesizer)
def _dense(synthesizer, queries, keys, pairs=None):
    heads, width = synthesizer.num_heads, synthesizer.hidden_dim
    if width is None:
        heads, width, _ = synthesizer.W_a.shape  # one head if heads share it
    pairs = _within(synthesizer, queries, keys, pairs)
    return {
        "projections": of_dense(synthesizer.hidden, queries),
        "logits": heads * pairs * width,
    }


@multiplications.register(synthesizers.FactorizedDenseSynthesizer)
def _factorized_dense(synthesizer, queries, keys, pairs=None):
    a, b = synthesizer.factors
    rows = synthesizer.num_heads * queries  # whole rows
    return {
        "projections": of_dense(synthesizer.hidden, queries),
        "logits": rows * ((a + b) * synthesizer.A.shape[1] + a * b),
    }


@multiplications.register(synthesizers.FactorizedRandomSynthesizer)
def _factorized_random(synthesizer, queries, keys, pairs=None):
    # The count is per sample, although a batch needs them once.
    pairs = _within(synthesizer, queries, keys, pairs)
    return {"logits": synthesizer.num_heads * pairs * synthesizer.rank}


@multiplications.register(CompositeSynthesizer)
def _composite(synthesizer, queries, keys, pairs=None):
    pairs = _within(synthesizer, queries, keys, pairs)
    parts = synthesizer.synthesizers
    return added(*(multiplications(x, queries, keys, pairs) for x in parts))


def _within(synthesizer, queries, keys, pairs=None):
    """The number of pairs, of all by default, with logits."""
    pairs = queries * keys if pairs is None else pairs
    if synthesizer.reach is None:
        return pairs
    return min(pairs, _near(synthesizer.reach + 1, queries, keys))


def _near(window, queries, keys):
    """The number of pairs with `|i - j| < window`."""
    return sum(
        max(0, min(keys, i + window) - max(0, i - window + 1))
        for i in range(queries)
    )


# --- attention: of T queries and S keys ---------------------------------------


@multiplications.register(SyntheticAttention)
def _attention(layer, queries, keys):
    # All pairs, unless a window or a pattern excludes some.
    layer._check_built()
    layer._check_symbolic_lengths(queries, keys)
    groups = {
        group: _pairs_of(layer, group, queries, keys)
        for group in layer.synthesizer.head_groups()
    }
    weights = {x: x.num_heads * pairs for x, pairs in groups.items()}
    pairs = sum(weights.values())
    known = (n for group, n in weights.items() if _has_weights(group, keys))
    values = layer.num_heads * layer.value_dim
    gate = of_dense(layer.gate, queries)
    if layer.gate is not None:
        gate += queries * values
    own = {
        "projections": gate + of_dense(layer.value, keys),
        "softmax": pairs - sum(known),
        "mixing": pairs * layer.value_dim,
        "output": of_dense(layer.attention_output, queries),
    }
    logits = (multiplications(x, queries, keys, groups[x]) for x in groups)
    return added(own, *logits)


def _pairs_of(layer, group, queries, keys):
    """The number of pairs that the heads of a group see."""
    reach = None if group.reach is None else group.reach + 1
    window = shortest(layer.sliding_window, reach)
    if layer.pattern is None:
        every = queries * keys
        return every if window is None else _near(window, queries, keys)
    limits = AttentionMask(window=window, pattern=layer.pattern)
    columns = np.arange(keys)
    return sum(
        int(limits.allows(np.array([i]), columns).sum()) for i in range(queries)
    )


def _has_weights(synthesizer, keys):
    """Whether it is a table of weights, which are not divided again."""
    is_table = isinstance(synthesizer, TableSynthesizer)
    return is_table and synthesizer.softmaxed and keys == synthesizer.max_length


# --- blocks -------------------------------------------------------------------


@multiplications.register(layers.FeedForward)
def _feed_forward(layer, tokens, source_length):
    layer._check_built()
    dense = layer.intermediate, layer.gate, layer.output_dense
    count = sum(of_dense(x, tokens) for x in dense)
    if layer.gate is not None:
        count += tokens * layer.intermediate_dim
    return {"feed-forward": count}


@multiplications.register(layers.SynthesizerEncoder)
def _encoder(block, length, source_length):
    block._check_built()
    return of_layers((block.attention, block.feed_forward), length, length)


@multiplications.register(layers.SynthesizerDecoder)
def _decoder(block, length, source_length):
    own = _encoder(block, length, source_length)
    if block.cross_attention is None:
        return own
    cross = multiplications(block.cross_attention, length, source_length)
    return added(own, cross)
