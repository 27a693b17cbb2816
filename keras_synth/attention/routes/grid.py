"""How streamed attention is cut into pieces and put together again.

Tensors have the axes b (samples), h (heads), t (rows, of queries), s (columns,
of the source) in this order, heads first; axes of length 1 serve all pieces.
The place of a piece is a dictionary of these letters: start and size.
"""

from typing import NamedTuple

from keras import ops

from keras_synth._backend import execution
from keras_synth._backend.distributions import number_of_devices
from keras_synth._backend.loops import add, cut, put, repeat

# Entries of the weights of a piece: 2 MiB of float32 fit into a CPU's cache
# with what is computed of them, accelerators want few and large pieces.
PIECE_SIZE = 2**19
ACCELERATOR_PIECE_SIZE = 2**25
# Rows of a piece along which a pattern forbids columns: fewer would be many
# small products, more visit what is forbidden.
FEWEST_ROWS = 64
# Compiled loops have pieces of one shape: under a causal mask as many loops,
# each over as many columns as its last rows see.
CAUSAL_LOOPS = 4


class Span(NamedTuple):
    """A run of equal pieces along one axis.

    Fields:
        first: Integer, where the first one begins.
        size: Integer or scalar tensor, of each.
        number: Integer or scalar tensor, how many.
        columns: Of rows: integer, the columns that a piece visits; `None` for
            all.
    """

    first: int
    size: object
    number: object
    columns: int | None = None


class Grid(NamedTuple):
    """All pieces.

    Fields:
        loops: Pairs of a letter and its `Span`s, outermost first.
        source_length: Integer or scalar tensor, `S`.
        before: Integer: columns begin as many before the first row of a
            piece; `None` if they begin at 0.
    """

    loops: tuple
    source_length: object
    before: int | None

    @property
    def cuts_columns(self):
        return any(s.columns is not None for s in dict(self.loops)["t"])


class Result(NamedTuple):
    """A tensor that is put together.

    Fields:
        layout: String, the letters of its axes.
        shape: Tuple of integers or scalar tensors.
        like: Tensor of its dtype and device.
        fixed: Letters of the axes along which it is one piece already, or
            `None` if it is the whole result.
    """

    layout: str
    shape: tuple
    like: object
    fixed: frozenset | None = None

    def varies(self, letter):
        """Whether pieces along an axis have places of their own."""
        if letter not in self.layout:
            return False
        return not _is(self.shape[self.layout.index(letter)], 1)

    def place(self, at):
        """Starts and sizes of a piece."""
        starts, sizes = [0] * len(self.shape), list(self.shape)
        for axis, letter in enumerate(self.layout):
            loose = letter in at and letter not in (self.fixed or ())
            if loose and self.varies(letter):
                starts[axis], sizes[axis] = at[letter]
        return starts, sizes


def part(x, layout, at):
    """Cuts a piece out of a tensor, or `None` out of `None`."""
    if x is None:
        return None
    starts, sizes = Result(layout, ops.shape(x), x).place(at)
    if _is_whole(starts, sizes, ops.shape(x)):
        return x
    if all(isinstance(n, int) for n in (*starts, *sizes)):
        index = zip(starts, sizes, strict=True)
        return x[tuple(slice(start, start + size) for start, size in index)]
    return cut(x, starts, sizes)


def _is_whole(starts, sizes, shape):
    return all(_is(n, 0) for n in starts) and all(
        a is b or (isinstance(b, int) and _is(a, b))
        for a, b in zip(sizes, shape, strict=True)
    )


def _is(x, number):
    """Whether `x` is a number and not a tensor that might hold it."""
    return isinstance(x, int) and x == number


# --- choosing pieces ----------------------------------------------------------


def grid_of(values, target_length, pattern, fills, sums_tables):
    """Returns the `Grid` of attention.

    Pieces are as large as fits: all rows of some samples or heads; of one head
    whose rows do not fit, some rows. Where several devices share samples, or
    heads, a piece is of some rows of all of them: to cut along an axis that
    is shared, each device would have to be sent the parts of all others.

    Args:
        values: Tensor `(B, H, S, v)`.
        target_length: Integer or scalar tensor, `T`.
        pattern: `AttentionMask` with the causal mask and the window.
        fills: Whether pieces of all heads may hold several samples on CPUs.
        sums_tables: Whether a gradient of T x S is summed over samples.
    """
    batch, heads, source_length, _ = values.shape
    cpu = execution.on_cpu(values)
    most = PIECE_SIZE if cpu else ACCELERATOR_PIECE_SIZE
    devices = number_of_devices()
    samples, group = 1, heads
    rows = (Span(0, target_length, 1),)
    known = isinstance(target_length, int) and isinstance(source_length, int)
    if devices > 1:
        samples = ops.shape(values)[0]
        if known and isinstance(batch, int):
            own = most * devices // (batch * heads)  # of a sample's head
            own = max(own, FEWEST_ROWS * source_length)
            rows = _row_spans(
                target_length, source_length, pattern, own, values
            )
    elif known:
        rows = _row_spans(target_length, source_length, pattern, most, values)
        columns = max(s.columns or source_length for s in rows)
        room = max(1, most // (rows[0].size * columns))
        group = _divisor(heads, room)
        several = fills or not cpu
        if group == heads and several and isinstance(batch, int):
            samples = _divisor(batch, room // heads)
    number = 1 if devices > 1 else ops.shape(values)[0] // samples
    loops = {
        "h": (Span(0, group, heads // group),),
        "b": (Span(0, samples, number),),
        "t": rows,
    }
    # What is summed over the innermost loop is as small as a piece: tables, or
    # else the gradients of keys and values.
    order = "htb" if sums_tables else "hbt"
    before = None if pattern.window is None else pattern.window - 1
    return Grid(
        tuple((letter, loops[letter]) for letter in order),
        ops.shape(values)[2],
        None if before is None else before - pattern.start,
    )


def _row_spans(target_length, source_length, pattern, most, values):
    rows = _rows(target_length, source_length, pattern, most)
    number = -(-target_length // rows)
    rows = -(-target_length // number)  # of about the same size
    runs = 1
    if pattern.causal and pattern.window is None:
        runs = (
            number
            if execution.supports_inplace(values)
            else min(number, CAUSAL_LOOPS)
        )
    full = target_length // rows
    spans = []
    for i in range(runs):
        first, last = full * i // runs, full * (i + 1) // runs
        if last > first:
            spans.append(Span(first * rows, rows, last - first))
    if full * rows < target_length:
        spans.append(Span(full * rows, target_length - full * rows, 1))
    return tuple(
        s._replace(columns=_columns(s, source_length, pattern)) for s in spans
    )


def _rows(target_length, source_length, pattern, most):
    """How many rows a piece has at most."""
    if pattern.has_pattern:
        return rows_of_pattern(target_length, source_length, pattern, most)
    # A head that is a little larger is not worth more pieces.
    whole = target_length * source_length <= 2 * most
    fitting = target_length if whole else max(1, most // source_length)
    return min(target_length, fitting)


def rows_of_pattern(target_length, source_length, pattern, most):
    """How many rows a piece has at most, where a pattern forbids columns.

    Args:
        target_length: Integer, `T`.
        source_length: Integer, `S`.
        pattern: `AttentionMask` with a causal mask or a window.
        most: Integer, entries of a piece's weights.
    """
    if pattern.window is not None:
        # Half of the columns are inside of the window.
        fitting = max(FEWEST_ROWS, pattern.window)
        while fitting > 1 and fitting * _span_columns(fitting, pattern) > most:
            fitting //= 2
        return min(target_length, fitting)
    fitting = max(1, most // source_length)
    fitting = min(fitting, max(FEWEST_ROWS, target_length // 8))
    return min(target_length, fitting)


def _span_columns(rows, pattern):
    """The columns that some rows see through a window."""
    sides = 1 if pattern.causal else 2
    return rows + sides * (pattern.window - 1)


def _columns(span, source_length, pattern):
    """The columns that each piece of a span visits; `None` for all."""
    if pattern.window is not None:
        columns = _span_columns(span.size, pattern)
    elif pattern.causal:
        columns = max(1, pattern.start + span.first + span.size * span.number)
    else:
        return None
    return None if columns >= source_length else columns


def _divisor(number, most):
    """The largest divisor of `number` that is at most `most`, at least 1."""
    return max(i for i in range(1, number + 1) if number % i == 0 and i <= most)


# --- putting together ---------------------------------------------------------


def assembled(piece, grid, results):
    """Puts the results of all pieces in their places.

    Results along an axis where there is one place for all are added.

    Args:
        piece: Function from the place of a piece to a tuple of tensors.
        grid: `Grid`.
        results: List of `Result`, as `piece` returns them.
    """
    like = results[0].like
    # Pieces of some columns have others beside them that nobody visits.
    whole = not (grid.cuts_columns and any("s" in r.layout for r in results))
    if (
        whole
        and execution.is_eager(like)
        and not execution.supports_inplace(like)
    ):
        return _joined(piece, grid, grid.loops, results, {})
    totals = tuple(_begun(r, grid) for r in results)
    return _visited(piece, grid, grid.loops, results, totals, {})


def _begun(result, grid):
    """A tensor for a whole result: not filled if all of it will be."""
    partly = "s" in result.layout and grid.cuts_columns
    return execution.new_tensor(result.like, result.shape, zeros=partly)


def _visited(piece, grid, loops, results, totals, at):
    """Adds the pieces of some loops to totals and returns these."""
    if not loops:
        parts = piece(at)
        return tuple(map(_written, totals, results, parts, [at] * len(parts)))
    (letter, spans), inner = loops[0], loops[1:]
    several = len(spans) > 1 or not _is(spans[0].number, 1)
    # A buffer that is read and written in one step would be copied. So what
    # is the same for all of these pieces is added up apart, then written.
    apart = [several and not r.varies(letter) for r in results]
    own = [
        r._replace(shape=tuple(r.place(at)[1]), fixed=frozenset(at))
        if sums
        else r
        for r, sums in zip(results, apart, strict=True)
    ]
    begun = [
        execution.new_tensor(r.like, r.shape, zeros=True) if sums else total
        for r, sums, total in zip(own, apart, totals, strict=True)
    ]
    for span in spans:

        def step(i, state, span=span):
            place = _placed(at, letter, i, span, grid)
            return _visited(piece, grid, inner, own, state, place)

        begun = repeat(span.number, step, tuple(begun))
    return tuple(
        _written(total, result, x, at) if sums else x
        for total, result, x, sums in zip(
            totals, results, begun, apart, strict=True
        )
    )


def _placed(at, letter, i, span, grid):
    """`at` with piece `i` of a span; rows bring their columns along."""
    if not isinstance(span.size, int):
        return at  # the whole of an axis whose length is not known
    first = span.first + i * span.size
    at = {**at, letter: (first, span.size)}
    if letter == "t" and isinstance(grid.source_length, int):
        at["s"] = _columns_at(first, span, grid)
    return at


def _columns_at(row, span, grid):
    if span.columns is None:
        return 0, grid.source_length
    if grid.before is None:
        return 0, span.columns
    first, last = row - grid.before, grid.source_length - span.columns
    if isinstance(row, int):
        return min(max(0, first), last), span.columns
    return ops.clip(first, 0, last), span.columns


def _written(total, result, x, at):
    """`total` with a piece in its place: added, unless it is the only one."""
    starts, sizes = result.place(at)
    whole = _is_whole(starts, sizes, result.shape)
    if result.fixed is None:
        return x if whole else put(total, starts, x)
    return total + x if whole else add(total, starts, x)


def _joined(piece, grid, loops, results, at):
    """As `_visited`, without writing: where operations run one by one."""
    if not loops:
        return piece(at)
    (letter, spans), inner = loops[0], loops[1:]
    found = [
        _joined(piece, grid, inner, results, _placed(at, letter, i, span, grid))
        for span in spans
        for i in range(span.number)
    ]
    if len(found) == 1:
        return found[0]
    return tuple(
        ops.concatenate(parts, axis=result.layout.index(letter))
        if result.varies(letter)
        else sum(parts[1:], parts[0])
        for result, parts in zip(results, zip(*found, strict=True), strict=True)
    )


def pieces_visit(target_length, source_length, pattern):
    """The share of all pairs that pieces visit, a float up to 1.

    Args:
        target_length: Integer, `T`.
        source_length: Integer, `S`.
        pattern: `AttentionMask` with a window.
    """
    rows = _rows(target_length, source_length, pattern, PIECE_SIZE)
    return min(1.0, _span_columns(rows, pattern) / source_length)
