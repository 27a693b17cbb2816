"""Gradients of streamed attention in place: sums over its pieces.

Each class knows the tensor that it is the gradient by, `add`s the part of a
piece, and returns the whole as `found`.
"""

from keras_synth.attention.logits import covering


def part(x, b, place, all_columns=False):
    """Cuts a sample's piece out of `(B or 1, H or 1, T or 1, .)`.

    Args:
        x: Tensor.
        b: Integer, the sample.
        place: `in_place.Place`.
        all_columns: Whether the last axis is left as it is.
    """
    x = x[min(b, x.shape[0] - 1)]
    x = x if x.shape[0] == 1 else x[place.heads]
    x = x if x.shape[1] == 1 else x[:, place.rows]
    return x if all_columns else x[..., place.columns]


class ByColumns:
    """Gradient by keys or values: sums over the rows of all pieces."""

    def __init__(self, work, x):
        self.x, self.total = x, work.like(x, x.shape[2])
        # Of each group of heads at work, by its first: a list of (h, k, S).
        self.sums = {}

    def add(self, b, place, rows, matrix):
        """Adds `rows^T matrix`, of `(h, t, k)` and `(h, t, s)`."""
        first = place.heads.start
        if first not in self.sums:
            batch, _, length, width = self.x.shape
            shape = batch, rows.shape[0], width, length
            self.sums[first] = list(self.x.new_zeros(shape))
        sums = self.sums[first]
        own = sums[min(b, len(sums) - 1)][..., place.columns]
        own.baddbmm_(rows.transpose(1, 2), matrix)

    def put(self, heads):
        """Writes the sums of a group of heads, all of whose rows are in."""
        _put_transposed(self.total, self.sums.pop(heads.start), heads)

    def found(self):
        return self.total.transpose(1, 2)


class ByPairs:
    """Gradients by queries and keys."""

    def __init__(self, work):
        self.work = work
        self.keys = ByColumns(work, work.keys)
        self.queries = work.like(work.queries, work.queries.shape[2])
        self.are_shared = self.queries.shape[0] == 1  # by all samples
        if self.are_shared:
            self.queries.zero_()

    def add(self, b, place, slopes):
        heads, rows, columns = place
        queries, keys = self.work.queries, self.work.keys
        own = keys[min(b, len(keys) - 1), heads, columns]
        step = self.work.torch.bmm(slopes, own)
        if self.are_shared:
            self.queries[0, heads, rows] += step
        else:
            self.queries[b, heads, rows] = step
        own = queries[min(b, len(queries) - 1), heads, rows]
        self.keys.add(b, place, own, slopes)

    def found(self):
        return self.queries.transpose(1, 2), self.keys.found()


def by_bias(work):
    """What sums the gradients by a bias and its scale; `None` without one."""
    if work.bias is None:
        return None
    if work.factors:
        return ByFactors(work)
    return (ByTable if work.is_table else ByBias)(work)


class ByBias:
    """Gradients by a bias and, if it has one, its scale."""

    def __init__(self, work):
        self.work = work
        self.total = work.bias.new_zeros(work.bias.shape)
        self.is_of_all_heads = work.bias.shape[1] == 1

    def add(self, b, place, slopes):
        _add_to(part(self.total, b, place), slopes)

    def found(self):
        if self.work.scale is None:
            return self.total, None
        # Turns the total into the gradient by the bias.
        of_scale = _of_scale(self.total, self.work)
        return self.total, of_scale


class ByTable:
    """Gradients by one table of all samples and, if it has one, its scale.

    A part is done with the last sample, while it is in the cache.
    """

    is_of_all_heads = False

    def __init__(self, work):
        self.work = work
        shape, skips = work.bias.shape, work.pattern.has_pattern
        make = work.bias.new_zeros if skips else work.bias.new_empty
        self.total = make(shape)
        self.of_scale = work.bias.new_zeros((1, shape[1], 1, 1))

    def add(self, b, place, slopes):
        total = part(self.total, 0, place)
        if b == 0:
            total.copy_(slopes)
        else:
            total += slopes
        work = self.work
        if work.scale is None or b < work.values.shape[0] - 1:
            return
        # So far the gradient by the product of table and scale.
        tables = zip(total, part(work.bias, 0, place), strict=True)
        for h, (own, table) in enumerate(tables, place.heads.start):
            self.of_scale[0, h] += _dot(work, own, table)
        total.mul_(part(work.scale, 0, place, all_columns=True))

    def found(self):
        scale = self.work.scale
        if scale is None or scale.shape[1] != 1:
            return self.total, None if scale is None else self.of_scale
        return self.total, self.of_scale.sum(1, keepdim=True)


class ByFactors:
    """Gradients by both factors of rows that are products."""

    def __init__(self, work):
        self.work = work
        self.of_first = work.scale.new_zeros(work.scale.shape)
        self.of_second = work.bias.new_zeros(work.bias.shape)
        self.is_of_all_heads = 1 in (work.scale.shape[1], work.bias.shape[1])

    def add(self, b, place, slopes):
        work = self.work
        first, second = (
            part(x, b, place, all_columns=True) for x in (work.scale, work.bias)
        )
        columns, width = place.columns, second.shape[-1]
        runs = covering(columns.start, slopes.shape[-1], width)
        missing = (
            columns.start - runs.start * width,
            runs.stop * width - columns.stop,
        )
        if any(missing):
            slopes = work.torch.nn.functional.pad(slopes, missing)
        slopes = slopes.unflatten(-1, (-1, width))  # (h, t, runs, width)
        of_first, of_second = (
            part(x, b, place, all_columns=True)
            for x in (self.of_first, self.of_second)
        )
        of_rows = (slopes * second[..., None, :]).sum(-1)
        _add_to(of_first[..., runs], of_rows)
        of_rows = (slopes * first[..., runs, None]).sum(-2)
        _add_to(of_second, of_rows)

    def found(self):
        return self.of_second, self.of_first


def _add_to(own, x):
    """Adds a piece to its part of a gradient, summed where that is one."""
    axes = [a for a in (0, 1) if own.shape[a] == 1 and x.shape[a] != 1]
    own += x.sum(axes, keepdim=True) if axes else x


def _put_transposed(total, sums, heads):
    """Puts sums, lists of `(h, k, S)`, among gradients `(b, H, S, k)`.

    PyTorch transposes a matrix block by block, one of more axes, or into rows
    that are apart, in five times as long.
    """
    for own, found in zip(total[:, heads], sums, strict=True):
        for to, matrix in zip(own, found, strict=True):
            to.copy_(matrix.t().contiguous())


def _of_scale(of_product, work):
    """Gradient by a table's scale; turns that by their product in place."""
    bias, scale = work.bias, work.scale
    # Head by head: no product of two tables is held.
    own = [
        _dot(work, x, y) for x, y in zip(of_product[0], bias[0], strict=True)
    ]
    own = work.torch.stack(own).view(1, -1, 1, 1)
    of_product.mul_(scale)
    return own if scale.shape[1] != 1 else own.sum(1, keepdim=True)


def _dot(work, x, y):
    return work.torch.dot(x.reshape(-1), y.reshape(-1))
