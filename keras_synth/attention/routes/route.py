"""What a route is: one way from logits, values and a mask to a context."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from keras import ops

from keras_synth._backend import execution
from keras_synth._backend.tensors import axis_size
from keras_synth.attention.logits import Logits
from keras_synth.attention.masks import AttentionMask, zero_padded_keys
from keras_synth.attention.normalizers import SOFTMAX, Normalizer, Softmax
from keras_synth.attention.routes import sizes
from keras_synth.types import Size, Tensor


class Request(NamedTuple):
    """One call of `attend`, as routes see it.

    Fields:
        logits: `Logits`, with a row for each query.
        values: Tensor `(B, S, H, v)`. When a route runs, padded entries are
            zero, so that inf and NaN there have no influence.
        target_length: Integer or scalar tensor, `T`.
        mask: `AttentionMask`, what of the source each query may see. The
            padding of queries is `attend`'s own task.
        dropout: Function that drops and rescales attention weights, or `None`.
        return_weights: Whether the weights are wanted, too.
        flash_attention: `True` demands a flash kernel, `False` forbids it,
            `None` leaves the choice.
        normalizer: `Normalizer`, what makes weights of logits. A route is
            asked for those alone that its `normalizers` allow.

    Example:

    >>> from keras_synth import routes
    >>> from keras_synth.logits import Logits
    >>> table = keras.random.normal((1, 2, 5, 5))
    >>> values = keras.random.normal((3, 5, 2, 4))
    >>> request = routes.Request(Logits(bias=table), values, target_length=5)
    >>> routes.choose(request)
    <SharedRoute 'shared'>
    """

    logits: Logits
    values: Tensor
    target_length: Size
    mask: AttentionMask = AttentionMask()
    dropout: Callable[[Tensor], Tensor] | None = None
    return_weights: bool = False
    flash_attention: bool | None = None
    normalizer: Normalizer = SOFTMAX

    @property
    def source_length(self) -> int:
        """Integer or scalar tensor, `S`."""
        return axis_size(self.values, 1)

    @property
    def has_one_query(self) -> bool:
        """Whether there is one query for each sample, `T = 1`."""
        return isinstance(self.target_length, int) and self.target_length == 1

    def with_pairs(self) -> Self:
        """Returns the same request, the mask's pattern as pairs."""
        mask = self.mask.with_pairs(self.target_length, self.source_length)
        return self._replace(mask=mask)

    def with_zero_keys(self) -> Self:
        """Returns the same request, padded keys of samples being zero."""
        logits = zero_padded_keys(self.logits, self.mask)
        return self._replace(logits=logits)

    def visible(self) -> Tensor:
        """Which query rows see a key: `(B or 1, 1 or H, 1 or T)` or `None`."""
        return self.mask.visible(self.target_length, self.source_length)

    def count(self) -> Tensor:
        """How many keys a row sees, at least 1; `None` if it does not matter.

        Float32 `(B or 1, 1 or H, 1 or T, 1)`.
        """
        if not self.normalizer.counts:
            return None
        count = self.mask.count(self.target_length, self.source_length)
        return ops.maximum(ops.cast(count, "float32"), 1.0)[..., None]


class Route:
    """One way to compute attention.

    `keras_synth.routes.register` adds one to those among which `attend`
    chooses: of all that serve a request, the one of least cost.

    Attributes:
        name: String, not yet taken by another route.
        normalizers: Tuple of classes of normalizers that it computes, those
            derived from them not included; `None` for all.
        takes_weights: Boolean, whether the request's logits may be `Weights`.

    Example:

    >>> class Always(keras_synth.routes.ExplicitRoute):
    ...     name = "always"
    ...
    ...     def cost(self, request):
    ...         return 0.0
    >>> layer = keras_synth.layers.SyntheticAttention(2, 4, synthesizer="V")
    >>> with keras_synth.routes.using(Always()):
    ...     outputs = layer(keras.random.normal((3, 7, 8)))
    """

    name: str = None
    normalizers: tuple[type[Normalizer], ...] | None = (Softmax,)
    takes_weights = False

    def serves(self, request: Request) -> bool:
        """Whether this route can serve a `Request`: a Python boolean.

        It must follow from shapes, dtypes, devices and options, not from the
        values of tensors, which are unknown while a model is compiled.
        """
        raise NotImplementedError

    def cost(self, request: Request) -> float:
        """How long it takes: a float, in units of the explicit route's time.

        A rough estimate will do; whatever `serves` can be asked to be taken
        first by a cost of 0.
        """
        raise NotImplementedError

    def is_portable(self, request: Request) -> bool:
        """Whether `run` is plain operations, which every file format supports.

        That is, it has no loops and no kernels of its own.
        `keras_synth.routes.portable` leaves no others. By default it is not.
        """
        return False

    def run(self, request: Request) -> Any:
        """Returns the context `(B, T, H, v)`, in the dtype of the values.

        If `request.return_weights`, a tuple of it and the float32 weights
        `(B, H, T, S)`. The softmax should be in float32, the row of a query
        that sees nothing is to be zero.
        """
        raise NotImplementedError

    def __repr__(self):
        return f"<{type(self).__name__} {self.name!r}>"


def number_of_weights(request: Request) -> int:
    """Returns the number of weights `B H T S`; 0 if a length is unknown."""
    batch, _, heads, _ = request.values.shape
    axes = batch, heads, request.target_length, request.source_length
    known = all(isinstance(size, int) for size in axes)
    return math.prod(axes) if known else 0


def is_small(request: Request) -> bool:
    """Whether operations take longer to start than to compute.

    A bias of all samples is then worth no detour.
    """
    few = 0 < number_of_weights(request) <= sizes.SMALL
    return few and execution.runs_one_by_one(request.values)
