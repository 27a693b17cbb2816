"""What is not public in Keras, PyTorch and JAX, and what to do without it.

No other module of the core uses names that begin with `_`, nor `jax._src`.
Another version may lack any of them: each function then does the next best
thing, which `tests/_backend/test_internals.py` sees.
"""

import contextlib
import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import keras

from keras_synth._backend.frameworks import JAX, TORCH


def torch_transforms() -> bool:
    """Returns whether PyTorch maps or differentiates functions right now.

    `torch.func` does, and the backward pass of `jacobian(..., vectorize=True)`,
    by an older way. Without these names: no, so that operations in place, and
    `torch.utils.checkpoint`, raise PyTorch's own errors there.
    """
    core = TORCH._C
    try:
        if core._are_functorch_transforms_active():
            return True
        key = core._parse_dispatch_key("VmapMode")
        return key is not None and core._dispatch_tls_is_dispatch_key_included(
            key
        )
    except (AttributeError, TypeError, RuntimeError):
        return False


def cudnn_checks() -> ModuleType | None:
    """Returns JAX's checks of what cuDNN's attention takes.

    `None` without them: attention then takes no kernel of cuDNN's on JAX.
    """
    try:
        return importlib.import_module(
            "jax._src.cudnn.fused_attention_stablehlo"
        )
    except ImportError:
        return None


@contextlib.contextmanager
def open_for_state(layer: Any) -> Iterator[None]:
    """Lets weights be added in a `with` block to a layer that is built.

    A layer without a tracker has nothing that is locked.
    """
    tracker = getattr(layer, "_tracker", None)
    if tracker is not None:
        tracker.unlock()
    try:
        yield
    finally:
        if tracker is not None:
            tracker.lock()


def untrack(layer: Any, part: Any) -> None:
    """Makes a layer forget a part of it that it is about to replace.

    Without a tracker the part stays where Keras keeps it.
    """
    tracker = getattr(layer, "_tracker", None)
    if tracker is not None:
        tracker.untrack(part)


def set_policy(layer: Any, policy: Any) -> None:
    """Gives a layer a dtype policy of its own instead of a map of policies.

    The setter of Keras writes into the map: Keras 3.15 cannot save a quantized
    layer that has a map for its policy. Without the attribute it is the setter
    that writes.
    """
    if hasattr(layer, "_dtype_policy"):
        layer._dtype_policy = policy
    else:
        layer.dtype_policy = policy


def is_empty(variable: Any) -> bool:
    """Returns whether a variable has lost its value to a training step on JAX.

    Without the attribute it counts as lost.
    """
    return getattr(variable, "_value", None) is None


@contextlib.contextmanager
def kept_variables(model: Any) -> Iterator[None]:
    """Leaves a model its variables when data raise an error in a `with` block.

    On JAX, Keras takes them out of a model before it asks for the first
    batch, and puts them back after the last one (Keras 3.15.1).
    """
    if JAX is None:
        yield
        return
    optimizer = getattr(model, "optimizer", None)
    variables = [*model.variables, *model.metrics_variables]
    variables += [] if optimizer is None else optimizer.variables
    kept = [(variable, variable.value) for variable in variables]
    try:
        yield
    except BaseException:
        model.jax_state_sync()
        model._jax_state = None  # on a version without it nobody reads it
        for variable, value in kept:
            # Without the attribute the value counts as lost.
            is_lost = getattr(variable, "_value", None) is None
            if is_lost and not value.is_deleted():
                variable.assign(value)
        raise


def sublayers(layer: keras.Layer, recursive: bool = True) -> list[keras.Layer]:
    """Returns the layers that a layer is made of, without itself, each once.

    Those of a model are its `layers`; those of another layer its attributes,
    or in lists, tuples and dictionaries of them; and, if `recursive`, those in
    these layers.
    """
    found: dict[int, keras.Layer] = {}
    _collect(layer, recursive, found)
    found.pop(id(layer), None)
    return list(found.values())


def _collect(layer, recursive, found):
    is_model = isinstance(layer, keras.Model)
    parts = layer.layers if is_model else list(vars(layer).values())
    while parts:
        part = parts.pop(0)
        if isinstance(part, dict):
            parts[:0] = part.values()
        elif isinstance(part, (list, tuple, set)):
            parts[:0] = part
        elif isinstance(part, keras.Layer) and id(part) not in found:
            found[id(part)] = part
            if recursive:
                _collect(part, recursive, found)


def keras_mask(x: Any) -> Any:
    """Returns the mask that Keras attached to a tensor, or `None`."""
    return getattr(x, "_keras_mask", None)


def set_keras_mask(x: Any, mask: Any) -> None:
    """Attaches a mask to a symbolic tensor, as Keras does."""
    x._keras_mask = mask


def keras_hub_class(module: str, name: str) -> type | None:
    """Returns a class of KerasHub's that it does not export, or `None`.

    Args:
        module: String, below `keras_hub.src.models`.
        name: String.
    """
    try:
        found = importlib.import_module(f"keras_hub.src.models.{module}")
    except ImportError:
        return None
    return getattr(found, name, None)
