"""The streamed route: the explicit one, piece by piece, columns left out."""

from typing import Any

from keras_synth._backend import execution
from keras_synth.attention.logits import Product
from keras_synth.attention.masks import zero_padded_keys, zero_rows
from keras_synth.attention.routes import grid, pieces
from keras_synth.attention.routes.route import Request, Route


class StreamedRoute(Route):
    """Attention in pieces that fit into a CPU's cache; of windows O(T w).

    Example:

    >>> from keras_synth.attend import attend
    >>> from keras_synth.logits import Logits
    >>> q, k = keras.random.normal((2, 3, 5, 2, 4))
    >>> logits = Logits(queries=q, keys=k)
    >>> values = keras.random.normal((3, 5, 2, 4))
    >>> attend(logits, values, route="streamed").shape
    (3, 5, 2, 4)
    """

    name = "streamed"
    normalizers = None
    reads_products = True

    def serves(self, request: Request) -> bool:
        plain = not request.return_weights and not request.flash_attention
        return plain and request.dropout is None

    def cost(self, request: Request) -> float:
        """Three quarters on CPUs, times the share of pairs that it visits.

        One row of weights is not worth cutting, and the loop of small steps
        leaves an accelerator idle most of the time.
        """
        if request.of_one_query:
            return 1.5
        share = 1.0
        mask = request.mask.with_window()
        if _is_run(mask) and mask.window is not None and cuts_columns(request):
            share = grid.pieces_visit(
                request.target_length, request.source_length, mask
            )
        if execution.on_cpu(request.values):
            return 0.75 * share
        return 1.5 if share == 1 else 4.0 * share

    def run(self, request: Request) -> Any:
        mask = request.mask.with_window()
        count = request.count()
        if not _is_run(mask) or (
            mask.has_pattern and not cuts_columns(request)
        ):
            request = request.with_pairs()
            mask = request.mask
        logits = zero_padded_keys(request.logits, mask)
        if not _multiplies_pieces(request):
            logits = logits.written_out()
        context = pieces.attend(
            pieces.Operands.of(logits, request.values),
            pieces.Constants(
                keys=None if mask.keys is None else mask.keys[:, None, None],
                pairs=mask.pairs,
                pattern=mask,
                seen=count,
                normalizer=request.normalizer,
            ),
        )
        return zero_rows(context, request.visible())


def _is_run(mask):
    """Whether what positions allow a row is a run of columns."""
    return mask.pattern is None


def _multiplies_pieces(request):
    """Whether a `Product` is multiplied piece by piece, never held whole.

    On PyTorch's CPUs that spares memory and passes over it.
    """
    multiplies = isinstance(request.logits.bias, Product)
    values = request.values
    return (
        multiplies
        and execution.supports_inplace(values)
        and execution.on_cpu(values)
    )


def cuts_columns(request):
    """Whether pieces leave out columns that a pattern forbids.

    Lengths must be known, and where operations run one by one a tensor must
    allow writing into it.
    """
    known = (request.target_length, request.source_length, request.mask.start)
    loops = execution.supports_inplace(
        request.values
    ) or not execution.is_eager(request.values)
    return loops and all(isinstance(number, int) for number in known)
