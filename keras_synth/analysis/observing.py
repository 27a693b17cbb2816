"""The attention weights of a model, seen while its layers are called."""

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_synth._backend.execution import without_gradients
from keras_synth._backend.internals import sublayers
from keras_synth.analysis.hooks import HOOKS, as_array
from keras_synth.mixers.mixer import Mixer


class Observation(NamedTuple):
    """What an attention layer did when it was called.

    Fields:
        name: String, the path of the layer, or of a part of its mixture.
        weights: Array `(B, H, T, S)`.
        visible: Boolean array that broadcasts to it, which pairs may attend.
        query_mask: Boolean array `(B, T)`, False for padding.
        key_mask: Boolean array `(B, S)`, likewise.
        is_self: Whether queries and keys are the same tokens.
    """

    name: str
    weights: np.ndarray
    visible: np.ndarray
    query_mask: np.ndarray
    key_mask: np.ndarray
    is_self: bool


# One at a time: two threads would put back each other's functions.
_LOCK = threading.RLock()


def observe(
    model: keras.Layer,
    inputs: Any,
    seen: Callable[[Observation], None],
    layers: str | Sequence[str] | None = None,
    parts: bool = False,
) -> None:
    """Calls a model, and hands over what each of its attention layers does.

    The model is as it was afterwards, whatever happens. Calls of the same
    model in other threads are not observed.

    Args:
        model: Keras layer or model.
        inputs: What it is called with.
        seen: Function that is called with an `Observation` for each call of an
            attention layer, in their order.
        layers: Names of the layers to observe; all by default.
        parts: Whether to hand over, after a layer, the weights that each part
            of its mixtures would give alone.

    Raises:
        ValueError: If the model has no attention layers, none of those names,
            or none that ran.
    """
    if isinstance(model, keras.Layer) and not model.built:
        model(inputs, training=False)
    found = attention_layers(model, layers)
    observer = _Observer(seen)
    with _LOCK, without_gradients(), contextlib.ExitStack() as stack:
        for name, layer in found.items():
            hook = next(hook for known, hook in HOOKS if known(layer))
            stack.enter_context(hook(layer, name, observer, parts))
        model(inputs, training=False)
    if not observer.names:
        raise ValueError(
            "None of the layers was called, or all within a compiled function "
            "or a `keras.RematScope`, which show no weights. Received: "
            f"{list(found)}"
        )


def attention_layers(
    model: Any, layers: str | Sequence[str] | None = None
) -> dict[str, Any]:
    """Returns the layers of a model whose weights can be seen, by their names.

    Args:
        model: Keras layer or model.
        layers: Names of those wanted; all by default.

    Raises:
        ValueError: If there are none, or none of such a name.
    """
    if not isinstance(model, keras.Layer):
        raise ValueError(
            f"`model` must be a Keras layer or model. Received: {model!r}"
        )
    found: dict[str, Any] = {}
    for layer in (model, *sublayers(model)):
        if any(known(layer) for known, _ in HOOKS):
            found[_unused(layer.path or layer.name, found)] = layer
    if not found:
        without = {
            type(layer).__name__
            for layer in (model, *sublayers(model))
            if isinstance(layer, Mixer)
        }
        why = f", whose {sorted(without)} have none" if without else ""
        raise ValueError(
            "A model with attention weights is expected: with "
            "SyntheticAttention or another mixer that has them, Keras' "
            "MultiHeadAttention or GroupQueryAttention, or T5's attention. "
            f"Received: {model.name!r} of {type(model).__name__}{why}"
        )
    if layers is None:
        return found
    wanted = [layers] if isinstance(layers, str) else list(layers)
    unknown = [name for name in wanted if name not in found]
    if unknown or not wanted:
        raise ValueError(
            f"The model's attention layers are {list(found)}. "
            f"Received: layers={layers!r}"
        )
    return {name: layer for name, layer in found.items() if name in wanted}


def _unused(name, names):
    """The name, with a number where it is taken."""
    numbers = iter(range(1, len(names) + 2))
    made = name
    while made in names:
        made = f"{name}_{next(numbers)}"
    return made


class _Observer:
    """Makes observations of what hooks see, and hands them over."""

    def __init__(self, seen):
        self._seen, self._tokens = seen, None
        self.names = set()

    def __call__(self, name, weights, visible, query_mask, is_self):
        """Takes tensors or arrays; `visible` and `query_mask` may be None."""
        weights = as_array(weights)
        if weights.ndim != 4:
            raise ValueError(
                f"The weights of {name!r} must have the axes (B, H, T, S); "
                "attention over several axes has more of them. Received: "
                f"weights.shape={weights.shape}"
            )
        batch, _, rows, columns = weights.shape
        visible = np.ones((1, 1, 1, 1), bool) if visible is None else visible
        visible = np.broadcast_to(
            visible, (batch, visible.shape[1], rows, columns)
        )
        # Padding is what no token may see.
        key_mask = visible.any((1, 2))
        if is_self:
            self._tokens = key_mask
        own = self._tokens  # in cross-attention those of the layer before
        if own is None or own.shape != (batch, rows):
            own = np.ones((batch, rows), bool)
        if query_mask is not None:
            own = own & as_array(query_mask).astype(bool)
        name = _unused(name, self.names)
        self.names.add(name)
        self._seen(Observation(name, weights, visible, own, key_mask, is_self))
