"""Plain forms of synthesizers: `plain_logits`."""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_synth.folding.plain import Graph, form
from keras_synth.folding.table import TableSynthesizer
from keras_synth.synthesizers import (
    AdditiveSynthesizer,
    DenseSynthesizer,
    DotProductSynthesizer,
    FactorizedDenseSynthesizer,
    LocalDenseSynthesizer,
    MixtureSynthesizer,
)
from keras_synth.types import Tensor


class PlainLogits(NamedTuple):
    """Logits as a sum: of a constant table and of tensors.

    Fields:
        table: Array `(H, T, S)`, or `None`.
        tensors: Tuple of tensors `(B or 1, H or 1, T, S)`.

    Example:

    >>> table = keras_synth.folding.PlainLogits(np.zeros((4, 10, 10)))
    >>> pairs = keras_synth.folding.PlainLogits(
    ...     tensors=(keras.Input((4, 10, 10)),))
    >>> len((table + pairs).tensors)
    1
    """

    table: Any = None
    tensors: tuple = ()

    def __add__(self, other):
        a, b = self.table, other.table
        table = b if a is None else a if b is None else a + b
        return PlainLogits(table, self.tensors + other.tensors)

    def plus(self, bias):
        """Returns the same with a bias, a tensor or an array, added."""
        if isinstance(bias, np.ndarray) and bias.shape[0] == 1:
            return self + PlainLogits(bias[0])
        return self + PlainLogits(tensors=(bias,))

    def scaled(self, alpha, graph):
        """Returns the same times an array `(H,)`."""
        alpha = alpha[:, None, None]
        table = None if self.table is None else self.table * alpha
        alpha = graph.constant(alpha) if self.tensors else None
        return PlainLogits(table, tuple(x * alpha for x in self.tensors))

    def total(self, graph):
        """Returns the sum as a tensor `(B or 1, H, T, S)`."""
        terms = [*self.tensors]
        if self.table is not None:
            terms.append(graph.constant(self.table[None]))
        return functools.reduce(ops.add, terms)


@functools.singledispatch
def plain_logits(
    synthesizer: Tensor, graph: Graph
) -> Callable[..., PlainLogits]:
    """Returns the plain form of a synthesizer that reads tokens.

    Args:
        synthesizer: `Synthesizer` with weights, already folded.
        graph: `Graph`, which makes stock layers.

    Returns:
        A function of a query `(B, T, d)` and a source `(B, S, d)`, symbolic
        tensors, that returns `PlainLogits`.

    Raises:
        ValueError: If there is no plain form.

    Example:

    >>> class Clipped(keras_synth.synthesizers.DotProductSynthesizer):
    ...     def call(self, *args, **kwargs):
    ...         logits = super().call(*args, **kwargs).materialize()
    ...         return keras_synth.logits.Logits(bias=keras.ops.tanh(logits))
    >>> @keras_synth.folding.plain_logits.register(Clipped)
    ... def plain_clipped(synthesizer, graph):
    ...     products = keras_synth.folding.plain_logits.dispatch(
    ...         keras_synth.synthesizers.DotProductSynthesizer)
    ...     def logits(query, source):
    ...         (x,) = products(synthesizer, graph)(query, source).tensors
    ...         return keras_synth.folding.PlainLogits(
    ...             tensors=(keras.ops.tanh(x),))
    ...     return logits
    """
    name = type(synthesizer).__name__
    raise ValueError(
        f"{name} has no plain form. Register a function, `@keras_synth.folding."
        f"plain_logits.register({name})`, or fold without `plain=True`. "
        f"Received: {synthesizer!r}"
    )


@plain_logits.register(TableSynthesizer)
def _of_table(synthesizer, graph):
    table = ops.convert_to_numpy(synthesizer.table).astype("float64")
    if synthesizer.softmaxed:
        table = np.log(table)

    def logits(query, source):
        T, S = query.shape[1], source.shape[1]
        synthesizer.check_lengths(T, S)
        rows, columns = (np.arange(n) % synthesizer.max_length for n in (T, S))
        return PlainLogits(table[:, rows[:, None], columns])

    return logits


@plain_logits.register(MixtureSynthesizer)
def _of_mixture(synthesizer, graph):
    parts = synthesizer.synthesizers
    alphas = synthesizer.tables().get("alphas", ())
    giver = None
    if synthesizer.share_queries:
        giver = next(x for x in parts if isinstance(x, DotProductSynthesizer))

    def logits(query, source):
        total, shares = PlainLogits(), iter(map(ops.convert_to_numpy, alphas))
        for part in parts:
            shared = {}
            if giver is not None and getattr(part, "hidden", 0) is None:
                shared = {"queries": graph.call(giver.query, query)}
            own = form(plain_logits, part)(part, graph)
            own = own(query, source, **shared)
            if synthesizer.alphas is not None and not part.is_bias:
                heads = np.broadcast_to(next(shares), part.num_heads)
                own = own.scaled(heads, graph)
            total = total + own
        return total

    return logits


@plain_logits.register(DotProductSynthesizer)
def _of_dot_product(synthesizer, graph):
    def logits(query, source):
        queries = graph.call(synthesizer.query, query)
        keys = graph.call(synthesizer.key, source)
        return PlainLogits(tensors=(dot_products(queries, keys),))

    return logits


def dot_products(queries, keys):
    """Returns `q . k / sqrt(k)`, `(B, H, T, S)`."""
    queries = queries * queries.shape[-1] ** -0.5
    return ops.einsum("bthk,bshk->bhts", queries, keys)


@plain_logits.register(DenseSynthesizer)
def _of_dense(synthesizer, graph):
    heads, linear = synthesizer.num_heads, synthesizer.hidden_dim is None

    def logits(query, source, queries=None):
        S = source.shape[1]
        synthesizer.check_lengths(query.shape[1], S)
        columns = np.arange(S) % synthesizer.max_length
        bias = synthesizer.b2
        if bias is not None:
            bias = ops.convert_to_numpy(bias)[None, :, None, columns]
            bias = np.broadcast_to(bias, (1, heads, 1, S))
        if linear:
            kernel = ops.convert_to_numpy(synthesizer.W_a)[:, :, columns]
            kernel = np.broadcast_to(kernel, (heads, *kernel.shape[1:]))
            x = graph.product("btd,hds->bhts", query, kernel, bias)
        else:
            if queries is None:
                queries = graph.call(synthesizer.hidden, query)
            kernel = ops.convert_to_numpy(synthesizer.W2)[columns]
            kernel = np.broadcast_to(kernel, (S, heads, kernel.shape[2]))
            features = synthesizer.activation(queries)
            x = graph.product("bthk,shk->bhts", features, kernel, bias)
        return PlainLogits(tensors=(x,))

    return logits


@plain_logits.register(FactorizedDenseSynthesizer)
def _of_factorized_dense(synthesizer, graph):
    def factor(x, kernel, bias, axes):
        if bias is not None:
            bias = ops.convert_to_numpy(bias)[None, :, None]
        kernel = ops.convert_to_numpy(kernel)
        return graph.product(f"{axes},hda->bhta", x, kernel, bias)

    def logits(query, source):
        T, S = query.shape[1], source.shape[1]
        synthesizer.check_lengths(T, S)
        x, axes = query, "btd"
        if synthesizer.hidden_dim is not None:
            axes = "bthd"
            x = synthesizer.activation(graph.call(synthesizer.hidden, query))
        rows = factor(x, synthesizer.A, synthesizer.b_A, axes)
        columns = factor(x, synthesizer.B, synthesizer.b_B, axes)
        products = rows[..., :, None] * columns[..., None, :]
        size = math.prod(synthesizer.factors)
        products = ops.reshape(products, (-1, synthesizer.num_heads, T, size))
        longest = synthesizer.max_length
        parts = [
            products[..., : min(S - at, longest)] for at in range(0, S, longest)
        ]
        return PlainLogits(tensors=(ops.concatenate(parts, axis=-1),))

    return logits


@plain_logits.register(LocalDenseSynthesizer)
def _of_local_dense(synthesizer, graph):
    reach, heads = synthesizer.reach, synthesizer.num_heads

    def logits(query, source):
        length, bias = query.shape[1], synthesizer.b2
        if bias is not None:
            bias = ops.convert_to_numpy(bias)[None, :, None]
        features = synthesizer.activation(graph.call(synthesizer.hidden, query))
        kernel = ops.convert_to_numpy(synthesizer.W2)
        band = graph.product("bthk,ohk->bhto", features, kernel, bias)
        # Rows of length n, read again as rows of length n - 1, are shifted by
        # one each: entry o of row i comes to i + o.
        width = length + 2 * reach
        widths = [[0, 0], [0, 0], [0, 0], [0, length]]
        flat = ops.reshape(
            ops.pad(band, widths), (-1, heads, length * (width + 1))
        )
        rows = ops.reshape(
            flat[..., : length * width], (-1, heads, length, width)
        )
        return PlainLogits(tensors=(rows[..., reach : reach + length],))

    return logits


@plain_logits.register(AdditiveSynthesizer)
def _of_additive(synthesizer, graph):
    kernel = ops.convert_to_numpy(synthesizer.scale)

    def logits(query, source):
        queries = graph.call(synthesizer.query, query)
        keys = graph.call(synthesizer.key, source)
        pairs = ops.tanh(queries[:, :, None] + keys[:, None])
        return PlainLogits(
            tensors=(graph.product("btshk,hk->bhts", pairs, kernel),)
        )

    return logits
