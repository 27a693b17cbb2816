"""The routes of attention, among which `attend` chooses.

Each is an object of a file of its own and all agree to rounding:

- **shared**: logits and mask do not depend on the batch, key padding
  excepted. One `(H, T, S)` table of weights serves all samples.
- **kernel**: there are queries; the backend's own attention kernel.
- **tiles**: groups of queries, each with the keys that it sees: those that a
  pattern allows, or all of them, one group after the other.
- **torch_cpu**: groups that PyTorch writes into memory at hand, on CPUs.
- **explicit**: all weights, `(B, H, T, S)`, when these are wanted or dropped
  out per sample. The only one that makes a tensor of that size by design.

Of those that serve a request the one of least cost is taken.
docs/routes.md has their costs, and shows how to add a kernel of one's own.
"""

import contextlib
import contextvars
import itertools
from collections.abc import Iterator

from keras_synth._backend import execution
from keras_synth.attention.logits import Weights
from keras_synth.attention.routes.explicit import ExplicitRoute
from keras_synth.attention.routes.kernel import KernelRoute
from keras_synth.attention.routes.route import Request, Route
from keras_synth.attention.routes.shared import SharedRoute
from keras_synth.attention.routes.tiles import TilesRoute
from keras_synth.attention.routes.torch_cpu import TorchCPURoute

__all__ = [
    "ExplicitRoute",
    "KernelRoute",
    "Request",
    "Route",
    "SharedRoute",
    "TilesRoute",
    "TorchCPURoute",
    "choose",
    "get",
    "portable",
    "register",
    "registered",
    "serving",
    "unregister",
    "using",
]

_routes: list[Route] = [
    SharedRoute(),
    KernelRoute(),
    TilesRoute(),
    TorchCPURoute(),
    ExplicitRoute(),
]
# What the `with` blocks of this context add, a list each: a route, or `None` to
# demand plain operations.
_blocks: contextvars.ContextVar = contextvars.ContextVar("blocks", default=())


@execution.known_to_compilers
def _of_blocks():
    return tuple(itertools.chain(*_blocks.get()))


@contextlib.contextmanager
def _block(entry):
    """Adds a list of its own, by which it is known, to the blocks."""
    _blocks.set((*_blocks.get(), entry))
    try:
        yield
    finally:  # not a token's reset: blocks may end in any order
        _blocks.set(tuple(x for x in _blocks.get() if x is not entry))


def registered() -> tuple[Route, ...]:
    """Returns all routes, a tuple in the order of registration.

    Those of `using` blocks come last, and only where the block is in force.
    """
    return (*_routes, *(route for route in _of_blocks() if route))


def get(name: str) -> Route:
    """Returns the route of a name.

    Raises:
        ValueError: If there is none.
    """
    known = registered()
    # A block's own first: another thread may register one of that name.
    for route in reversed(known):
        if route.name == name:
            return route
    raise ValueError(
        f"Unknown route. Known: {_names(known)}; "
        "`keras_synth.routes.register` adds others. "
        f"Received: route={name!r}"
    )


def register(route: Route) -> Route:
    """Adds a route to those among which `attend` chooses, and returns it.

    What has been compiled keeps the routes it was compiled with: register
    before the first call of a model.

    Args:
        route: `Route` whose name is not taken.

    Raises:
        ValueError: If it is no `Route`, does not say what it serves, costs
            and does, has no name, or one that is taken.
    """
    _check(route)
    _routes.append(route)
    return route


def _check(route):
    if not isinstance(route, Route):
        hint = " Register an object, not its class." * isinstance(route, type)
        raise ValueError(
            "A route must be an object of a class derived from "
            f"`keras_synth.routes.Route`.{hint} Received: route={route!r}"
        )
    missing = [
        method
        for method in ("serves", "cost", "run")
        if getattr(type(route), method) is getattr(Route, method)
    ]
    if missing:
        raise ValueError(
            "A route must say what it serves, what that costs, and run it. "
            f"Missing methods: {missing}. Received: route={route!r}"
        )
    taken = _names(registered())
    if not isinstance(route.name, str) or not route.name or route.name in taken:
        raise ValueError(
            "A route needs a name, a string other than those taken: "
            f"{taken}. Received: name={route.name!r} of {route!r}"
        )


def unregister(name: str | Route) -> Route:
    """Removes a route that `register` added, or one of the package.

    Args:
        name: String, or the route itself.

    Raises:
        ValueError: If there is no such route outside of `using` blocks, or it
            is `"explicit"`, which serves what no other does.
    """
    route = get(name.name if isinstance(name, Route) else name)
    if route.name == "explicit" or route not in _routes:
        raise ValueError(
            "The explicit route must stay, because it serves what no other "
            "does, and a route of `using` stays until its block ends. "
            f"Received: name={route.name!r}"
        )
    _routes.remove(route)
    return route


@contextlib.contextmanager
def using(*routes: Route) -> Iterator[None]:
    """Adds routes for the duration of a `with` block.

    Only the block's own thread (or task of `asyncio`) sees them, and threads
    that are given its context, as by `asyncio.to_thread`. PyTorch's gradients
    on GPUs run in threads of their own: a layer made in a `keras.RematScope` is
    computed again without the block's routes.

    Args:
        *routes: `Route` objects, as for `register`.

    Raises:
        ValueError: As `register` does.
    """
    with contextlib.ExitStack() as stack:
        for route in routes:
            _check(route)
            stack.enter_context(_block([route]))
        yield


@contextlib.contextmanager
def portable() -> Iterator[None]:
    """Leaves plain operations only, for the duration of a `with` block.

    Other routes loop and branch, which not every file format can hold. The
    models of `keras_synth.models` export themselves within such a block; for
    models of your own write it around `export` or a converter.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     2, 4, synthesizer="R", max_length=7)
    >>> with keras_synth.routes.portable():
    ...     outputs = layer(keras.random.normal((3, 7, 8)))
    """
    with _block([None]):
        yield


def serving(request: Request) -> tuple[Route, ...]:
    """Returns the routes that can serve a `Request`, a tuple."""
    blocks = _of_blocks()
    plain = None in blocks or execution.takes_no_loops()
    folded = isinstance(request.logits, Weights)
    normalizer = type(request.normalizer)
    return tuple(
        route
        for route in (*_routes, *blocks)
        if route is not None
        and (route.takes_weights or not folded)
        and (route.normalizers is None or normalizer in route.normalizers)
        and route.serves(request)
        and (not plain or route.is_portable(request))
    )


def choose(request: Request, name: str | None = None) -> Route:
    """Returns the route of least cost that serves a request.

    Args:
        request: `Request`.
        name: Optional string: the route to take, whatever it costs.

    Raises:
        ValueError: If no route of this name is known, or it cannot serve, or
            no route can give what `flash_attention=True` demands.
    """
    wanted = None if name is None else get(name)
    able = serving(request)
    if request.flash_attention and not able:
        parts = request.logits._asdict().items()
        names = ", ".join(key for key, x in parts if x is not None)
        raise ValueError(
            "flash_attention=True needs logits that compare queries with keys "
            '(dot-product, Dense, or mixtures with them). Leave it out for "R" '
            f"and the like. Received: logits of {names}"
        )
    if wanted is None:
        costs = [route.cost(request) for route in able]
        return able[costs.index(min(costs))]
    if wanted not in able:
        raise ValueError(
            f"The route must be one of {_names(able)} for these logits, mask, "
            "dropout, return_weights and flash_attention. "
            f"Received: route={name!r}"
        )
    return wanted


def _names(routes):
    return [route.name for route in routes]
