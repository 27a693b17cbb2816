"""Private names of Keras, PyTorch and JAX, with alternatives.

No other module of the core uses such names. Other versions may lack them. Each
function then does the next best thing.
"""

import contextlib
import importlib
import inspect
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import keras

from keras_synth._backend.frameworks import JAX, TORCH


def torch_transforms() -> bool:
    """Returns whether PyTorch maps or differentiates functions.

    `torch.func` does, and, by an older API, the backward pass of
    `jacobian(..., vectorize=True)`. Without these names the result is False, so
    that operations in place, and `torch.utils.checkpoint`, raise PyTorch's
    errors.
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
    """Returns JAX's checks of the arguments of cuDNN's attention.

    It is `None` without them. Attention on JAX then does not use cuDNN.
    """
    try:
        return importlib.import_module(
            "jax._src.cudnn.fused_attention_stablehlo"
        )
    except ImportError:
        return None


@contextlib.contextmanager
def open_for_state(layer: Any) -> Iterator[None]:
    """Allows new weights of a built layer in a `with` block.

    A layer without a tracker is not locked.
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
    """Makes a layer forget a part that will be replaced.

    Without a tracker Keras keeps the part.
    """
    tracker = getattr(layer, "_tracker", None)
    if tracker is not None:
        tracker.untrack(part)


def set_policy(layer: Any, policy: Any) -> None:
    """Sets a layer's dtype policy, instead of a map of policies.

    Keras' setter writes into the map, but Keras 3.15 cannot save a quantized
    layer whose policy is a map. Without the attribute the setter is used.
    """
    if hasattr(layer, "_dtype_policy"):
        layer._dtype_policy = policy
    else:
        layer.dtype_policy = policy


def set_trainable(layer: Any, value: bool) -> None:
    """Sets whether a layer is trained, with all its parts."""
    # With TensorFlow, assigning the value that a layer has does nothing.
    layer.trainable = not value
    layer.trainable = value


def is_functional(layer: Any) -> bool:
    """Whether a layer is a functional or Sequential model of Keras' classes."""
    name = keras.saving.get_registered_name(type(layer))
    return name in ("Functional", "Sequential")


def cloned(model: keras.Model, clone: Callable[[Any], Any]) -> keras.Model:
    """Returns a functional or Sequential model of clones of its layers."""
    compiled, model.compiled = model.compiled, False
    try:
        return keras.models.clone_model(model, clone_function=clone)
    finally:
        model.compiled = compiled


def compiled_like(model: Any, made: Any) -> Any:
    """Returns a changed model, which is compiled like the original.

    It is not if Keras cannot make the optimizer, losses and metrics from a
    config: those of classes or functions that are not registered.
    """
    if is_functional(model) and model.compiled:
        with (
            contextlib.suppress(TypeError, ValueError, NotImplementedError),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")  # of lambdas, which no file keeps
            made.compile_from_config(model.get_compile_config())
    return made


def calls_of(layer: Any) -> list[dict[str, Any]]:
    """Returns the known calls of a layer, as arguments by their names."""
    signature = inspect.signature(layer.call)
    nodes = getattr(layer, "_inbound_nodes", ())
    return [
        signature.bind(*x.arguments.args, **x.arguments.kwargs).arguments
        for x in nodes
    ]


@contextlib.contextmanager
def replaced_call(layer: Any, call: Callable[..., Any]) -> Iterator[None]:
    """Replaces the method `call` of a layer in a `with` block."""
    own = vars(layer)
    before = {name: x for name, x in own.items() if name == "call"}
    own["call"] = call  # without `setattr`, which Keras tracks
    try:
        yield
    finally:
        del own["call"]
        own.update(before)


def is_empty(variable: Any) -> bool:
    """Returns whether a training step on JAX has taken a variable's value.

    Without the attribute it counts as taken.
    """
    return getattr(variable, "_value", None) is None


@contextlib.contextmanager
def kept_variables(model: Any) -> Iterator[None]:
    """Keeps a model's variables if data raise an error in a `with` block.

    On JAX, Keras removes them from a model before the first batch, and restores
    them after the last one (Keras 3.15.1).
    """
    if JAX is None:
        yield
        return
    # A step on a single batch leaves its state, which is older than weights
    # that were set since.
    model.jax_state_sync()
    model._jax_state = None  # versions without this attribute ignore it
    optimizer = getattr(model, "optimizer", None)
    variables = [*model.variables, *model.metrics_variables]
    variables += [] if optimizer is None else optimizer.variables
    kept = [(variable, variable.value) for variable in variables]
    try:
        yield
    except BaseException:
        # Of an optimizer built for others.
        with contextlib.suppress(ValueError):
            model.jax_state_sync()
        model._jax_state = None
        for variable, value in kept:
            if is_empty(variable) and not value.is_deleted():
                variable.assign(value)
        raise


def sublayers(layer: keras.Layer, recursive: bool = True) -> list[keras.Layer]:
    """Returns the parts of a layer, without itself, each once.

    The parts of a model are its `layers`. The parts of another layer are its
    attributes, or in lists, tuples and dictionaries of them. If `recursive`,
    their parts are included.
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


class _Masked(keras.layers.Layer):
    """Returns a tensor; `mask` is its mask, or the one passed with it."""

    def __init__(self) -> None:
        super().__init__(autocast=False, name="masked")
        self.supports_masking = True
        self.mask: Any = None

    def call(self, x: Any, mask: Any = None) -> Any:
        self.mask = mask
        return x


def _has_no_attributes(x):
    """Whether Keras keeps the mask of a tensor elsewhere: a tracer of JAX."""
    return JAX is not None and isinstance(x, JAX.core.Tracer)


def keras_mask(x: Any) -> Any:
    """Returns the mask that Keras attached to a tensor, or `None`."""
    if not _has_no_attributes(x):
        return getattr(x, "_keras_mask", None)
    masked = _Masked()
    masked(x)
    return masked.mask


def set_keras_mask(x: Any, mask: Any) -> None:
    """Attaches a mask to a tensor, as Keras does."""
    if _has_no_attributes(x):
        _Masked()(x, mask=mask)
    else:
        x._keras_mask = mask


def as_input(layer: keras.Layer, x: Any) -> Any:
    """Converts an argument as Keras will, with its mask.

    A symbolic tensor does not change: a model would lose the mask at a cast.
    """
    if keras.backend.is_keras_tensor(x):
        return x
    y = layer.dtype_policy.convert_input(x, layer.autocast, layer.input_dtype)
    mask = None if y is x else keras_mask(x)
    if mask is not None:
        set_keras_mask(y, mask)
    return y


def keras_hub_part(module: str, name: str) -> Any | None:
    """Returns a class or function of `keras_hub.src.<module>`, or `None`."""
    try:
        found = importlib.import_module(f"keras_hub.src.{module}")
    except ImportError:
        return None
    return getattr(found, name, None)
