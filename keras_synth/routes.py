"""The routes of attention: ways to compute it, which agree up to rounding.

`attend` uses the cheapest route that supports a request. docs/routes.md lists
the routes and their costs, and shows how to add your own kernel.
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
# A list for each `with` block of this context: the routes that it adds, or
# `None` to demand plain operations.
_blocks: contextvars.ContextVar = contextvars.ContextVar("blocks", default=())


@execution.known_to_compilers
def _of_blocks():
    return tuple(itertools.chain(*_blocks.get()))


@contextlib.contextmanager
def _block(entry):
    """Adds a list to the blocks, and removes this very list at the end."""
    _blocks.set((*_blocks.get(), entry))
    try:
        yield entry
    finally:  # no reset of a token: blocks can end in any order
        _blocks.set(tuple(x for x in _blocks.get() if x is not entry))


def registered() -> tuple[Route, ...]:
    """Returns all routes, a tuple in the order of registration.

    Routes of active `using` blocks come last.
    """
    return (*_routes, *(route for route in _of_blocks() if route))


def get(name: str) -> Route:
    """Returns a route by name.

    Raises:
        ValueError: If the name is unknown.
    """
    known = registered()
    # Routes of blocks first: another thread can register the same name.
    for route in reversed(known):
        if route.name == name:
            return route
    raise ValueError(
        f"Unknown route. Expected one of {_names(known)}, or a route added by "
        f"`keras_synth.routes.register`. Received: route={name!r}"
    )


def register(route: Route) -> Route:
    """Adds a route that `attend` can choose, and returns it.

    Register before the first call of a model, because compiled functions keep
    their routes.

    Args:
        route: `Route` with a new name.

    Raises:
        ValueError: If it is not a `Route` or does not have a new name.
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
    taken = _names(registered())
    if not isinstance(route.name, str) or not route.name or route.name in taken:
        raise ValueError(
            f"A route needs a name, a string other than {taken}. Received: "
            f"name={route.name!r} of {route!r}"
        )


def unregister(name: str | Route) -> Route:
    """Removes a registered route or a route of the package.

    Args:
        name: String or route.

    Raises:
        ValueError: If the name is unknown outside of `using` blocks, or is
            `"explicit"`.
    """
    route = get(name.name if isinstance(name, Route) else name)
    if route.name == "explicit" or route not in _routes:
        raise ValueError(
            "The explicit route cannot be removed, because no other route "
            "supports every request. A route of `using` is removed at the end "
            f"of its block. Received: name={route.name!r}"
        )
    _routes.remove(route)
    return route


@contextlib.contextmanager
def using(*routes: Route) -> Iterator[None]:
    """Adds routes for the duration of a `with` block.

    They apply to the thread or `asyncio` task of the block, and to threads that
    receive its context, as from `asyncio.to_thread`. PyTorch computes gradients
    on GPUs in other threads: a layer made in a `keras.RematScope` is computed
    again without the block's routes.

    Args:
        *routes: `Route` objects, as for `register`.

    Raises:
        ValueError: As `register` does.
    """
    with _block([]) as added:
        for route in routes:
            _check(route)
            added.append(route)
        yield


@contextlib.contextmanager
def portable() -> Iterator[None]:
    """Uses only plain operations for the duration of a `with` block.

    Other routes loop and branch, which some file formats do not support. The
    models of `keras_synth.models` export in such a block by themselves. For
    other models write it around `export` or a converter.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     2, 4, synthesizer="R", max_length=7)
    >>> with keras_synth.routes.portable():
    ...     outputs = layer(keras.random.normal((3, 7, 8)))
    """
    with _block([None]):
        yield


def serving(request: Request) -> tuple[Route, ...]:
    """Returns a tuple of the routes that support a `Request`."""
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
    """Returns the cheapest route that supports a request.

    Args:
        request: `Request`.
        name: Optional string, the route to use, whatever its cost.

    Raises:
        ValueError: If the name is unknown or its route does not support the
            request, or if no route supports `flash_attention=True`.
    """
    wanted = None if name is None else get(name)
    able = serving(request)
    if request.flash_attention and not able:
        parts = request.logits._asdict().items()
        names = ", ".join(key for key, x in parts if x is not None)
        raise ValueError(
            "flash_attention=True needs logits that compare queries with keys "
            "(dot-product, Dense, or mixtures with them). Leave it out for "
            f'other synthesizers, such as "R". Received: logits of {names}'
        )
    if wanted is None:
        costs = [route.cost(request) for route in able]
        return able[costs.index(min(costs))]  # `min` with a key breaks graphs
    if wanted not in able:
        raise ValueError(
            f"The route must be one of {_names(able)} for these logits, mask, "
            "dropout, return_weights and flash_attention. "
            f"Received: route={name!r}"
        )
    return wanted


def _names(routes):
    return [route.name for route in routes]
