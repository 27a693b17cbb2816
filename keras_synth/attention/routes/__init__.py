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
docs/benchmarks/speed_tables.md has the measurements behind the costs;
docs/routes.md shows how to add a kernel of one's own.
"""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import NamedTuple

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


class _Block(NamedTuple):
    """What `with` blocks say of their own context."""

    routes: tuple[Route, ...] = ()
    portable: int = 0  # how many demand plain operations


_NO_BLOCK = _Block()
_routes = [
    SharedRoute(),
    KernelRoute(),
    TilesRoute(),
    TorchCPURoute(),
    ExplicitRoute(),
]
_block = contextvars.ContextVar("block", default=_NO_BLOCK)


@execution.known_to_compilers
def _in_force():
    return _block.get()


def registered() -> tuple[Route, ...]:
    """Returns all routes, a tuple in the order of registration.

    Those of `using` blocks come last, and only where the block is in force.
    """
    return (*_routes, *_in_force().routes)


def get(name: str) -> Route:
    """Returns the route of a name.

    Raises:
        ValueError: If there is none.
    """
    return _named(name, registered())


def _named(name, known):
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
    """Adds a route to those among which `attend` chooses.

    What has been compiled keeps the routes it was compiled with: register
    before the first call of a model.

    Args:
        route: `Route` whose name is not taken.

    Returns:
        The route.

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
    """Removes a route and returns it.

    One of a `using` block is removed from that block.

    Args:
        name: String, or the route itself.

    Raises:
        ValueError: If there is no such route, or it is `"explicit"`, which
            serves what no other does.
    """
    route = get(name.name if isinstance(name, Route) else name)
    if route.name == "explicit":
        raise ValueError(
            "The explicit route must stay: it serves what no other does. "
            f"Received: name={route.name!r}"
        )
    if route in _routes:
        _routes.remove(route)
    else:
        _leave(route)
    return route


@contextlib.contextmanager
def using(*routes: Route) -> Iterator[None]:
    """Adds routes for the duration of a `with` block.

    Only the block's own thread (or task of `asyncio`) sees them, and blocks
    that overlap in time take nothing from each other. `register` adds a route
    for all threads.

    A thread that is started inside of a block does not see them, unless it is
    given the block's context: `asyncio.to_thread` does that, and so does
    `Thread(target=contextvars.copy_context().run, args=(function,))`. It then
    sees them as long as it runs. PyTorch's gradients on GPUs run in threads of
    their own: a layer made in a `keras.RematScope` is computed again without
    the block's routes.

    Args:
        *routes: `Route` objects, as for `register`.

    Raises:
        ValueError: As `register` does.
    """
    entered = []
    try:
        for route in routes:
            _check(route)
            entered.append(route)
            block = _block.get()
            _block.set(block._replace(routes=(*block.routes, route)))
        yield
    finally:
        for route in entered:
            _leave(route)


def _leave(route):
    """Takes a route away from the blocks of this context."""
    # Not a token's reset: blocks may end in another order than they began.
    block = _block.get()
    left = tuple(other for other in block.routes if other is not route)
    _block.set(block._replace(routes=left))


@contextlib.contextmanager
def portable() -> Iterator[None]:
    """Leaves plain operations only, for the duration of a `with` block.

    Other routes loop and branch, which saves time and memory, and which not
    every file format can hold. The models of `keras_synth.models` export
    themselves within such a block; for models of your own write it around
    `export` or a converter. What PyTorch records is portable anyway.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     2, 4, synthesizer="R", max_length=7)
    >>> with keras_synth.routes.portable():
    ...     outputs = layer(keras.random.normal((3, 7, 8)))
    """
    _count_portable(1)
    try:
        yield
    finally:
        _count_portable(-1)


def _count_portable(change):
    block = _block.get()
    _block.set(block._replace(portable=block.portable + change))


def serving(request: Request) -> tuple[Route, ...]:
    """Returns the routes that can serve a `Request`, a tuple."""
    return _serving(request, _in_force())


def _serving(request, block):
    known = (*_routes, *block.routes)
    if isinstance(request.logits, Weights):
        known = tuple(route for route in known if route.takes_weights)
    able = tuple(
        route
        for route in known
        if route.knows(request.normalizer) and route.serves(request)
    )
    plain = (
        execution.is_recorded()
        or execution.is_compiled_by_torch()
        or execution.is_transformed()
    )
    if block.portable or plain:
        able = tuple(route for route in able if route.is_portable(request))
    return able


def choose(request: Request, name: str | None = None) -> Route:
    """Returns the route of least cost that serves a request.

    Args:
        request: `Request`.
        name: Optional string: the route to take, whatever it costs.

    Raises:
        ValueError: If no route of this name is known, or it cannot serve, or
            no route can give what `flash_attention=True` demands.
    """
    block = _in_force()
    known = (*_routes, *block.routes)
    wanted = None if name is None else _named(name, known)
    able = _serving(request, block)
    if request.flash_attention and not able:
        raise ValueError(
            "flash_attention=True needs logits that compare queries with keys "
            '(dot-product, Dense, or mixtures with them). Leave it out for "R" '
            f"and the like. Received: {_described(request.logits)}"
        )
    if wanted is None:
        return _cheapest(able, request)
    if wanted not in able:
        raise ValueError(
            f"The route must be one of {_names(able)} for these logits, mask, "
            "dropout, return_weights and flash_attention. "
            f"Received: route={name!r}"
        )
    return wanted


def _cheapest(able, request):
    # PyTorch's compiler knows no `min` with a key.
    cheapest, least = None, float("inf")
    for route in able:
        cost = route.cost(request)
        if cost < least:
            cheapest, least = route, cost
    return cheapest


def _names(routes):
    return [route.name for route in routes]


def _described(logits):
    """Which parts logits have."""
    parts = logits._asdict().items()
    return "logits of " + ", ".join(k for k, x in parts if x is not None)
