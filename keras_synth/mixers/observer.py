"""What observes mixers while they are called.

`keras_synth.analysis.capture` sets it for the calls of its own context: other
threads, and other contexts of asynchronous code, are not observed.
"""

import contextvars
from collections.abc import Callable
from typing import Any

from keras_synth._backend.execution import known_to_compilers

# A function of a mixer and its `Call` that returns what `_call_flat` does.
OBSERVER: contextvars.ContextVar[Callable[..., Any] | None] = (
    contextvars.ContextVar("observer", default=None)
)


@known_to_compilers
def current() -> Callable[..., Any] | None:
    """Returns the function that calls mixers in this context, or `None`."""
    return OBSERVER.get()
