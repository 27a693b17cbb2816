"""Requests, and the base class of routes."""

import abc
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from keras import ops

from keras_synth._backend import execution
from keras_synth._backend.tensors import axis_size
from keras_synth.attention.logits import Logits
from keras_synth.attention.masks import AttentionMask, zero_padding
from keras_synth.attention.normalizers import SOFTMAX, Normalizer, Softmax
from keras_synth.attention.routes import sizes
from keras_synth.types import Size, Tensor


class Request(NamedTuple):
    """The arguments of `attend` in the form that routes use.

    Fields:
        logits: `Logits`, with a row for each query.
        values: Tensor `(B, S, H, v)`. In `run` padded entries are zero.
        target_length: Integer or scalar tensor, `T`.
        mask: `AttentionMask` without padding of queries, which `attend`
            applies.
        dropout: Function that drops and rescales attention weights, or `None`.
        return_weights: Whether to also return the weights.
        flash_attention: `True` demands a flash kernel, `False` forbids it,
            `None` leaves the choice.
        normalizer: `Normalizer`. A route receives only those in its
            `normalizers`.

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
        """Whether `T = 1`."""
        return isinstance(self.target_length, int) and self.target_length == 1

    def with_pairs(self) -> Self:
        """Returns the same request with the mask's pattern as pairs."""
        mask = self.mask.with_pairs(self.target_length, self.source_length)
        return self._replace(mask=mask)

    def with_zero_keys(self) -> Self:
        """Returns the same request with zeros for padded keys.

        Constant keys `(1, S, H, k)` of several samples do not change.
        """
        keys, padding = self.logits.keys, self.mask.keys
        if keys is None or padding is None:
            return self
        if keys.shape[0] == 1 and padding.shape[0] != 1:
            return self
        logits = self.logits._replace(keys=zero_padding(keys, padding))
        return self._replace(logits=logits)

    def visible(self) -> Tensor:
        """Which query rows see a key: `(B or 1, 1 or H, 1 or T)` or `None`."""
        return self.mask.visible(self.target_length, self.source_length)

    def count(self) -> Tensor:
        """The number of keys that a row sees, at least 1, or `None` if unused.

        Float32 `(B or 1, 1 or H, 1 or T, 1)`.
        """
        if not self.normalizer.counts:
            return None
        count = self.mask.count(self.target_length, self.source_length)
        return ops.maximum(ops.cast(count, "float32"), 1.0)[..., None]


class Route(abc.ABC):
    """Base class of ways to compute attention.

    `keras_synth.routes.register` adds a route. `attend` chooses the cheapest
    route that supports a request.

    Attributes:
        name: String, different from those of other routes.
        normalizers: Tuple of supported classes of normalizers, without their
            subclasses; `None` for all.
        takes_weights: Boolean, whether the request's logits can be `Weights`.

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

    @abc.abstractmethod
    def serves(self, request: Request) -> bool:
        """Whether this route supports a `Request`, a Python boolean.

        It can depend on shapes, dtypes, devices and options, but not on the
        values of tensors, which are unknown while a model is compiled.
        """

    @abc.abstractmethod
    def cost(self, request: Request) -> float:
        """The estimated time, a float, in units of the explicit route's time.

        A rough estimate is enough. A cost of 0 always wins.
        """

    def is_portable(self, request: Request) -> bool:
        """Whether `run` uses only operations that every file format supports.

        It then has no loops and no custom kernels.
        `keras_synth.routes.portable` excludes other routes. The default is
        False.
        """
        return False

    @abc.abstractmethod
    def run(self, request: Request) -> Any:
        """Returns the context `(B, T, H, v)`, in the dtype of the values.

        If `request.return_weights`, a tuple of it and the float32 weights
        `(B, H, T, S)`. The softmax should be in float32. Rows without visible
        keys must be zero.
        """

    def __repr__(self):
        return f"<{type(self).__name__} {self.name!r}>"


def number_of_weights(request: Request) -> int:
    """Returns the number of weights `B H T S`, or 0 if a length is unknown."""
    batch, _, heads, _ = request.values.shape
    axes = batch, heads, request.target_length, request.source_length
    known = all(isinstance(size, int) for size in axes)
    return math.prod(axes) if known else 0


def is_small(request: Request) -> bool:
    """Whether Python takes longer to launch operations than they take.

    That is so on accelerators. Detours for a bias of all samples then cost more
    than they save.
    """
    x, few = request.values, 0 < number_of_weights(request) <= sizes.SMALL
    eager = execution.is_eager(x) and not execution.is_compiled_by_torch()
    return few and eager and not execution.on_cpu(x)
