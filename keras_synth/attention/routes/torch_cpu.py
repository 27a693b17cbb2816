"""The route for PyTorch's CPUs: tiles that reuse memory.

New memory costs more than the product that fills it (1024 x 64 by 64 x 1024 on
one core: 3.1 ms, into an existing tensor 1.5 ms). All tiles share two tensors,
one for scores and then their gradient, one for weights. The gradient computes
weights again, and is differentiated by the explicit route.
"""

import functools
import math
from typing import Any

from keras_synth._backend import execution
from keras_synth._backend.frameworks import TORCH
from keras_synth.attention.logits import Logits
from keras_synth.attention.masks import zero_rows
from keras_synth.attention.routes import sizes
from keras_synth.attention.routes.explicit import ExplicitRoute
from keras_synth.attention.routes.route import (
    Request,
    Route,
    number_of_weights,
)
from keras_synth.attention.softmax import FORBIDDEN


class TorchCPURoute(Route):
    """A float32 softmax on PyTorch's CPUs, in eager execution.

    Example:

    >>> keras_synth.routes.get("torch_cpu")
    <TorchCPURoute 'torch_cpu'>
    """

    name = "torch_cpu"

    def serves(self, request: Request) -> bool:
        mask = request.mask
        if request.return_weights or request.flash_attention or request.dropout:
            return False
        limited = mask.window is not None or mask.pattern is not None
        if limited or not isinstance(mask.start, int):
            return False
        if not execution.runs_torch_eagerly(request.values):
            return False
        operands = *request.logits[:3], request.values
        return all(x is None or x.dtype == TORCH.float32 for x in operands)

    def cost(self, request: Request) -> float:
        """Less than tiles, except for a single row of weights.

        Computing tiles of a large table again for a second sample takes less
        time than new memory for the table.
        """
        if request.has_one_query:
            return 1.5
        batch = request.values.shape[0]
        table = number_of_weights(request) // max(1, batch)
        few = batch <= 2 and table >= batch * sizes.LARGE_TABLE // 2
        return 0.25 if few and request.logits.shared else 0.7

    def run(self, request: Request) -> Any:
        request = request.with_zero_keys()
        operands = *request.logits[:3], request.values
        context = _function().apply(request, *operands)
        return zero_rows(context, request.visible())


@functools.cache
def _function():
    """Returns the `torch.autograd.Function` of the context and its gradient."""

    class Attention(TORCH.autograd.Function):
        @staticmethod
        def forward(ctx, request, *operands):
            context = _context(_Tiles(request))
            ctx.request = request._replace(logits=None, values=None)
            ctx.save_for_backward(*operands, context)
            return context

        @staticmethod
        def backward(ctx, grad_context):
            *logits, values, context = ctx.saved_tensors
            request = ctx.request._replace(
                logits=Logits(*logits), values=values
            )
            # For second derivatives, or to map over gradients.
            if TORCH.is_grad_enabled() or execution.is_transformed():
                needed = ctx.needs_input_grad[1:]
                grads = _recorded_gradient(request, needed, grad_context)
            else:
                grads = _gradient(_Tiles(request), context, grad_context)
            return None, *grads

    return Attention


def _recorded_gradient(request, needed, grad_context):
    """Returns the gradients by operations that PyTorch differentiates."""
    operands = *request.logits[:3], request.values
    again = TORCH.is_grad_enabled()
    with TORCH.enable_grad():
        context = ExplicitRoute().run(request)
    wanted = [x for x, need in zip(operands, needed, strict=True) if need]
    options = {"create_graph": again, "allow_unused": True}
    grads = TORCH.autograd.grad(context, wanted, grad_context, **options)
    found = iter(grads)
    return [next(found) if need else None for need in needed]


# --- context and gradient -----------------------------------------------------


def _context(tiles):
    """Returns the context `(B, T, H, v)`; its gradient is not recorded."""
    values, context = tiles.values, tiles.empty(tiles.values, tiles.rows)
    for b, heads, rows, columns in tiles:
        weights = tiles.weights(b, heads, rows, columns)
        context[b, heads, rows] = weights @ values[b, heads, columns]
    return context.transpose(1, 2)


def _gradient(tiles, context, grad_context):
    """Returns the gradients by the operands, `None` for a missing one."""
    grad_context = grad_context.transpose(1, 2)
    # FlashAttention's delta: a row's weights times their gradients.
    row_dot = (grad_context * context.transpose(1, 2)).sum(-1, keepdim=True)
    queries, keys, values = tiles.queries, tiles.keys, tiles.values
    # Gradients by keys and values are sums over rows, (b, h, features, S).
    grads = {"values": _transposed_zeros(values)}
    if queries is not None:
        grads["queries"] = tiles.empty(queries, queries.shape[2]).zero_()
        grads["keys"] = _transposed_zeros(keys)
    if tiles.bias is not None:
        grads["bias"] = TORCH.zeros_like(tiles.bias)
    for b, heads, rows, columns in tiles:
        weights = tiles.weights(b, heads, rows, columns)
        own = grad_context[b, heads, rows]
        grads["values"][b, heads, :, columns].baddbmm_(own.mT, weights)
        # The scores are not needed anymore.
        grad_logits = TORCH.bmm(
            own, values[b, heads, columns].mT, out=tiles.scores
        )
        grad_logits.sub_(row_dot[b, heads, rows]).mul_(weights)
        if queries is not None:
            q, k = min(b, len(queries) - 1), min(b, len(keys) - 1)
            step = TORCH.bmm(grad_logits, keys[k, heads, columns])
            grads["queries"][q, heads, rows] += step
            grads["keys"][k, heads, :, columns].baddbmm_(
                queries[q, heads, rows].mT, grad_logits
            )
        if tiles.bias is not None:
            own = _part(grads["bias"], b, heads, rows, columns)
            axes = [a for a in (0, 1) if own.shape[a] != grad_logits.shape[a]]
            own += grad_logits.sum(axes, keepdim=True) if axes else grad_logits
    orders = {
        "queries": (0, 2, 1, 3),
        "keys": (0, 3, 1, 2),
        "bias": (0, 1, 2, 3),
        "values": (0, 3, 1, 2),
    }
    return [
        grads[name].permute(order) if name in grads else None
        for name, order in orders.items()
    ]


def _transposed_zeros(x):
    """Returns zeros `(b, h, k, S)` for the gradient by `(b, h, S, k)`."""
    batch, heads, length, width = x.shape
    return x.new_zeros((batch, heads, width, length))


def _part(x, b, heads, rows, columns):
    """Cuts a tile of a sample from `(B or 1, H or 1, T or 1, S)`."""
    x = x[min(b, x.shape[0] - 1)]
    x = x if x.shape[0] == 1 else x[heads]
    return (x if x.shape[1] == 1 else x[:, rows])[..., columns]


class _Tiles:
    """Operands with heads first, cut into tiles, and the weights of each.

    Iterating yields a sample and the slices of heads, rows and columns.
    """

    def __init__(self, request):
        queries, keys, self.bias = request.logits[:3]
        self.queries, self.keys, self.values = (
            None if x is None else x.transpose(1, 2)
            for x in (queries, keys, request.values)
        )
        self.mask = request.mask
        self.pairs, self.padding = (
            None if x is None else TORCH.as_tensor(x)
            for x in (self.mask.pairs, self.mask.keys)
        )
        self.rows = request.target_length
        self.bands = list(self._bands())
        largest = max(_size(rows) * _size(cols) for rows, cols in self.bands)
        self.heads = max(1, min(sizes.TILE // largest, self.values.shape[1]))
        self.scores = None
        # For scores and for weights.
        self._memory = self.values.new_empty((2, self.heads * largest))
        self._forbidden = {}  # by the causal mask, for each shape of a corner
        self._least = self.values.new_tensor(FORBIDDEN)

    def __iter__(self):
        batch, count, _, _ = self.values.shape
        for first in range(0, count, self.heads):
            heads = slice(first, min(first + self.heads, count))
            for rows, columns in self.bands:
                for b in range(batch):
                    yield b, heads, rows, columns

    def _bands(self):
        """Yields slices of rows, and of their columns."""
        length, columns = self.rows, self.values.shape[2]
        most = max(1, sizes.TILE // columns)
        if self.mask.causal:
            most = min(most, max(sizes.FEWEST_ROWS, length // 8))
        number = -(-length // most)
        size = -(-length // number)  # about equal sizes
        for first in range(0, length, size):
            stop = min(first + size, length)
            seen = self.mask.start + stop if self.mask.causal else columns
            yield slice(first, stop), slice(max(1, min(seen, columns)))

    def empty(self, x, length):
        """Returns `(b, h, length, k)` with the memory order of projections."""
        batch, heads, _, width = x.shape
        return x.new_empty((batch, length, heads, width)).transpose(1, 2)

    def weights(self, b, heads, rows, columns):
        """Returns weights `(h, t, s)`; can overwrite `self.scores`."""
        shape = _size(heads), _size(rows), _size(columns)
        memory = self._memory[:, : math.prod(shape)]
        scores, weights = memory.view(2, *shape)
        self.scores = scores
        place = b, heads, rows, columns
        if self.bias is not None:
            scores.copy_(_part(self.bias, *place))
        if self.queries is not None:
            queries = self.queries[min(b, len(self.queries) - 1), heads, rows]
            keys = self.keys[min(b, len(self.keys) - 1), heads, columns].mT
            if self.bias is None:
                TORCH.bmm(queries, keys, out=scores)
            else:
                scores.baddbmm_(queries, keys)
        if self.pairs is not None:
            allowed = _part(self.pairs, *place)
            TORCH.where(allowed, scores, self._least, out=scores)
        if self.padding is not None:
            allowed = _part(self.padding[:, None, None], *place)
            # Selecting by a broadcast mask takes ten times as long.
            bound = TORCH.where(allowed, -self._least, self._least)
            TORCH.minimum(scores, bound, out=scores)
        if self.mask.causal:
            self._forbid_later(scores, rows, columns)
        return TORCH.softmax(scores, -1, out=weights)

    def _forbid_later(self, scores, rows, columns):
        """Forbids the columns after each row's own: a corner of the tile."""
        first = min(self.mask.start + rows.start, columns.stop)
        shape = _size(rows), columns.stop - first
        if shape not in self._forbidden:
            ones = scores.new_ones(shape, dtype=bool)
            self._forbidden[shape] = ones.triu_(1)
        scores[..., first:].masked_fill_(self._forbidden[shape], FORBIDDEN)


def _size(part):
    return part.stop - (part.start or 0)
