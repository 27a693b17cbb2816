"""The shared route: one table of weights for the whole batch.

Without padding the context is the product of one `(H, T, S)` table with the
values of all samples, a matrix product per head with the batch folded into the
columns. A table too large for any cache is never held as weights: the same
product, streamed.

What padding makes of that product: `keras_synth.attention.routes.products`.
"""

import math
from typing import Any

from keras import ops

from keras_synth._backend import execution
from keras_synth._backend.tensors import cast_like, pad
from keras_synth.attention.logits import Logits, Weights
from keras_synth.attention.masks import zero_rows
from keras_synth.attention.normalizers import (
    SOFTMAX,
    ReLU,
    Sigmoid,
    Softmax,
    Softmax1,
)
from keras_synth.attention.routes import pieces
from keras_synth.attention.routes.pieces import Constants, Operands
from keras_synth.attention.routes.products import (
    apply,
    apply_bounded,
    apply_known,
    apply_padded,
    is_float16,
)
from keras_synth.attention.routes.route import Request, Route
from keras_synth.attention.routes.streamed import cuts_columns
from keras_synth.attention.softmax import FORBIDDEN, forbid, masked_softmax

# Entries of a table that is streamed: 128 MiB of float32.
LARGE_TABLE = 2**25


class SharedRoute(Route):
    """Weights that are computed once and serve all samples.

    Example:

    >>> from keras_synth.attend import attend
    >>> from keras_synth.logits import Logits
    >>> logits = Logits(bias=keras.random.normal((1, 2, 5, 5)))
    >>> values = keras.random.normal((3, 5, 2, 4))
    >>> attend(logits, values, route="shared").shape
    (3, 5, 2, 4)
    """

    name = "shared"
    normalizers = (Softmax, Softmax1, ReLU, Sigmoid)
    reads_products = True

    def serves(self, request: Request) -> bool:
        plain = not request.return_weights and not request.flash_attention
        if isinstance(request.normalizer, Sigmoid):
            # Its n is inside: each sample's padding gives other weights.
            plain = plain and request.mask.keys is None
        return plain and request.logits.shared and request.mask.shared

    def cost(self, request: Request) -> float:
        """A softmax for all samples and one product; little of each sample.

        A single sample looks as if it were the same for the whole batch: its
        own queries are better left to routes that compare them.
        """
        alone = request.values.shape[0] == 1
        return 2.0 if alone and request.logits.queries is not None else 0.3

    def is_portable(self, request: Request) -> bool:
        """Without padding, which takes a branch, and a table in one piece.

        What PyTorch compiles or transforms has bounded weights, and takes none.
        """
        if isinstance(request.logits, Weights):
            return True  # no softmax is left, which alone takes a branch
        mask = request.mask
        lengths = request.target_length, request.source_length
        known = all(isinstance(length, int) for length in lengths)
        heads = request.values.shape[2]
        small = not known or heads * math.prod(lengths) < LARGE_TABLE
        bounded = execution.is_compiled_by_torch() or execution.is_transformed()
        bounded = bounded and not execution.is_recorded()
        bounded = bounded and not request.logits.is_steep
        return small and (mask.keys is None or bounded)

    def run(self, request: Request) -> Any:
        known = isinstance(request.logits, Weights)
        if not known and _is_streamed(request):
            return _streamed(request)
        request = request.with_pairs()
        logits, values, mask = request.logits, request.values, request.mask
        if isinstance(logits, Weights):
            return apply_known(logits.table[0], values, mask)
        table = logits.materialize()[0]  # (H, T, S)
        pairs = None if mask.pairs is None else mask.pairs[0]  # (., T, S)
        if mask.keys is None:
            weights = _weights(table, pairs, request)
            return apply(cast_like(weights, values), values)
        if pairs is not None:
            table = ops.where(pairs, table, FORBIDDEN)
        if isinstance(request.normalizer, ReLU):
            return _apply_counted(table, request)
        # Steep rows may see far less than that bound.
        bounded = not (logits.is_steep or execution.may_branch(values))
        visible = None if bounded else request.visible()
        keys = mask.keys
        if request.normalizer.sink:
            table, values, keys = _with_sink(table, values, keys)
        keep = None
        if request.dropout is not None:
            keep = request.dropout(ops.ones_like(table))
        if bounded:
            return apply_bounded(table, values, keys, keep, pairs)
        return apply_padded(table, values, keys, visible, keep)


def _weights(table, pairs, request):
    """Weights `(H, T, S)` of all samples, after dropout."""
    if request.normalizer == SOFTMAX:
        weights = masked_softmax(table, pairs)
    else:
        if pairs is not None:
            table = forbid(table, pairs)
        count = request.count()
        count = None if count is None else count[0]
        weights = request.normalizer.weights(table, count)
    return weights if request.dropout is None else request.dropout(weights)


def _apply_counted(table, request):
    """Returns `relu(table) (m V) / n`.

    Args:
        table: Float32 tensor `(H, T, S)`, logits.
        request: `Request`.
    """
    values = request.values
    weights = ops.relu(table)
    if request.dropout is not None:
        weights = request.dropout(weights)
    # A sum that is yet to be divided might overflow in float16.
    exact = "float32" if is_float16(values) else values.dtype
    found = apply(ops.cast(weights, exact), ops.cast(values, exact))
    count = ops.transpose(request.count()[..., 0], (0, 2, 1))  # (B, T, H)
    found = ops.cast(found, "float32") / count[..., None]
    return ops.cast(found, values.dtype)


def _with_sink(table, values, keys):
    """Adds a key that all rows see, whose logits and values are zero."""
    keys = pad(ops.cast(keys, "int32"), [[0, 0], [0, 1]], value=1)
    return (
        pad(table, [[0, 0], [0, 0], [0, 1]]),
        pad(values, [[0, 0], [0, 1], [0, 0], [0, 0]]),
        ops.cast(keys, "bool"),
    )


def _is_streamed(request):
    """Whether a table is too large to be held, and can be streamed."""
    values, keys = request.values, request.mask.keys
    sizes = request.target_length, request.source_length, values.shape[2]
    known = all(isinstance(size, int) for size in sizes)
    alike = keys is None or keys.shape[0] == 1
    large = known and math.prod(sizes) >= LARGE_TABLE
    plain = alike and request.dropout is None
    return large and plain and execution.on_cpu(values)


def _streamed(request):
    """One sample whose features are those of all samples."""
    count = request.count()
    mask = request.mask.with_window()
    if mask.pattern is not None or not cuts_columns(request):
        request = request.with_pairs()
        mask = request.mask
    logits, values = request.logits, request.values
    if not execution.supports_inplace(values):
        logits = Logits(bias=logits.materialize())
    batch, length, heads, width = ops.shape(values)
    columns = ops.transpose(values, (1, 2, 0, 3))
    columns = ops.reshape(columns, (1, length, heads, batch * width))
    context = pieces.attend(
        Operands.of(logits, columns),
        Constants(
            keys=None if mask.keys is None else mask.keys[:, None, None],
            pairs=mask.pairs,
            pattern=mask,
            seen=count,
            normalizer=request.normalizer,
        ),
    )
    context = zero_rows(context, request.visible())
    shape = (request.target_length, heads, batch, width)
    return ops.transpose(ops.reshape(context, shape), (2, 0, 1, 3))
