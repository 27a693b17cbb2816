"""The attention weights of a model, seen while its layers are called.

Layers are observed from outside: for the time of a call `call` of the layer
object, or `_call_flat` of a mixer of this package, is another function, which
asks for the weights too.
"""

import contextlib
import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_synth._backend.execution import (
    is_eager,
    is_placeholder,
    without_gradients,
)
from keras_synth.attention.attend import attend
from keras_synth.mixers import SyntheticAttention
from keras_synth.mixers.mixer import Mixer
from keras_synth.synthesizers import MixtureSynthesizer


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
    told = _Told(seen)
    with _LOCK, without_gradients(), contextlib.ExitStack() as stack:
        for name, layer in found.items():
            hook = next(hook for known, hook in _KINDS if known(layer))
            stack.enter_context(hook(layer, name, told, parts))
        model(inputs, training=False)
    if not told.names:
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
    for layer in model._flatten_layers():
        if any(known(layer) for known, _ in _KINDS):
            found[_unused(layer.path or layer.name, found)] = layer
    if not found:
        without = {
            type(layer).__name__
            for layer in model._flatten_layers()
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


class _Told:
    """Makes observations of what hooks see, and hands them over."""

    def __init__(self, seen):
        self._seen, self._tokens = seen, None
        self.names = set()

    def __call__(self, name, weights, visible, query_mask, is_self):
        """Takes tensors or arrays; `visible` and `query_mask` may be None."""
        weights = _array(weights)
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
            own = own & _array(query_mask).astype(bool)
        name = _unused(name, self.names)
        self.names.add(name)
        self._seen(Observation(name, weights, visible, own, key_mask, is_self))


def _array(x):
    return np.asarray(ops.convert_to_numpy(x))


# --- how layers are observed --------------------------------------------------


@contextlib.contextmanager
def _replaced(layer, name, make):
    """Puts a function in the place of a method, in this thread alone.

    Args:
        layer: Layer.
        name: String, that of the method.
        make: Function that returns what takes its place, given the method.
    """
    method, own = getattr(layer, name), vars(layer)
    before, here = own.get(name), threading.get_ident()
    observing = make(method)

    def either(*args, **kwargs):
        tensors = [x for x in keras.tree.flatten((args, kwargs)) if _is(x)]
        values = all(is_eager(x) and not is_placeholder(x) for x in tensors)
        observed = values and threading.get_ident() == here
        return (observing if observed else method)(*args, **kwargs)

    own[name] = either  # not by `setattr`, which Keras tracks
    try:
        yield
    finally:
        if before is None:
            del own[name]
        else:
            own[name] = before


def _is(x):
    return ops.is_tensor(x) or isinstance(x, keras.KerasTensor)


@contextlib.contextmanager
def _own_mixer(layer, name, told, parts):
    """Observes a mixer of this package, for one axis of tokens."""

    def make(call):
        def observing(query, value, key, mask, bias, scores, training):
            inputs = query, value, key, mask, bias, True, training
            with _kept_logits(layer if parts else None) as logits:
                output, weights = call(*inputs)
            is_self = _same(query, value)
            visible = _written_out(mask, query, value)
            told(name, weights, visible, mask.queries, is_self)
            for part, heads, own in logits:
                masked = mask.of_heads(heads)
                alone = _alone(layer, part, own, query, value, masked)
                visible = _written_out(masked, query, value)
                told(part.path, alone, visible, mask.queries, is_self)
            return (output, weights) if scores else output

        return observing

    with _replaced(layer, "_call_flat", make):
        yield


def _parts(synthesizer, heads):
    """Pairs of each part of mixtures and the heads that it is of."""
    groups = synthesizer.head_groups()
    if len(groups) > 1:
        first = 0
        for group in groups:
            yield from _parts(group, slice(first, first + group.num_heads))
            first += group.num_heads
    elif isinstance(synthesizer, MixtureSynthesizer):
        for part in synthesizer.synthesizers:
            yield part, heads
            yield from _parts(part, heads)


def _written_out(mask, query, value):
    """Which pairs an `AttentionMask` lets attend, an array; or `None`."""
    mask = mask.written_out(query.shape[1], value.shape[1]).materialize()
    return None if mask is None else _array(mask)


@contextlib.contextmanager
def _kept_logits(layer):
    """Yields a list to which the parts of a layer's mixtures add their logits.

    Triples of part, heads and `Logits`.
    """
    kept = []

    def keeping(part, heads):
        def make(call):
            def observing(*args, **kwargs):
                logits = call(*args, **kwargs)
                kept.append((part, heads, logits))
                return logits

            return observing

        return make

    with contextlib.ExitStack() as stack:
        if isinstance(layer, SyntheticAttention):
            for part, heads in _parts(layer.synthesizer, slice(None)):
                hook = _replaced(part, "call", keeping(part, heads))
                stack.enter_context(hook)
        yield kept


def _alone(layer, part, logits, query, value, mask):
    """The weights that a part would give alone, an array `(B, h, T, S)`."""
    _, weights = attend(
        logits,
        ops.zeros((*value.shape[:2], part.num_heads, 1)),
        mask,
        target_length=query.shape[1],
        return_weights=True,
        route="explicit",
        normalizer=layer.normalizer,
    )
    return _array(weights)


@contextlib.contextmanager
def _with_scores(layer, name, told, parts):
    """Observes a layer with the call of Keras' MultiHeadAttention."""
    signature = inspect.signature(type(layer).call)

    def make(call):
        def observing(*args, **kwargs):
            given = signature.bind(layer, *args, **kwargs).arguments
            scores = given.get("return_attention_scores")
            kwargs["return_attention_scores"] = True
            output, weights, *others = call(*args, **kwargs)
            query, value = given["query"], given.get("value")
            value = query if value is None else value
            visible = _visible(layer, given, weights.shape)
            is_self = _same(query, value)
            told(name, weights, visible, given.get("query_mask"), is_self)
            found = (output, weights) if scores else (output,)
            found = (*found, *others)
            return found if len(found) > 1 else output

        return observing

    with _replaced(layer, "call", make):
        yield


def _visible(layer, given, shape):
    """Which pairs may attend, by the arguments of a call; or `None`."""
    found = None
    mask = given.get("attention_mask")
    if mask is not None:
        mask = _array(mask).astype(bool)
        found = mask[:, None] if mask.ndim == 3 else mask
        found = found[None, None] if found.ndim == 2 else found
    for name in ("value_mask", "key_mask"):
        keys = given.get(name)
        if keys is not None:
            found = _both(found, _array(keys).astype(bool)[:, None, None])
    rows, columns = (np.arange(n) for n in shape[-2:])
    distance = (rows[:, None] - columns)[None, None]
    if given.get("use_causal_mask"):
        found = _both(found, distance >= 0)
    window = layer.get_config().get("sliding_window")
    return found if window is None else _both(found, abs(distance) < window)


def _both(a, b):
    return b if a is None else a & b


@contextlib.contextmanager
def _before_dropout(layer, name, told, parts):
    """Observes KerasHub's attention of T5 by what its dropout is given."""
    weights = []

    def make_dropout(call):
        def observing(inputs, *args, **kwargs):
            weights.append(inputs)
            return call(inputs, *args, **kwargs)

        return observing

    def make(call):
        def observing(hidden_states, *args, **kwargs):
            weights.clear()
            found = call(hidden_states, *args, **kwargs)
            own = _array(weights.pop())
            is_self = kwargs.get("key_value_states") is None
            told(name, own, own.max(1, keepdims=True) > 0, None, is_self)
            return found

        return observing

    with (
        _replaced(layer.dropout_layer, "call", make_dropout),
        _replaced(layer, "call", make),
    ):
        yield


def _same(a, b):
    """Whether two tensors hold the same tokens."""
    if a is b:
        return True
    return a.shape == b.shape and np.array_equal(_array(a), _array(b))


def _is_own_mixer(layer):
    own = isinstance(layer, Mixer) and layer.supports_attention_scores
    return own and type(layer).call is Mixer.call


def _has_scores(layer):
    kinds = keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention
    if isinstance(layer, Mixer):
        return layer.supports_attention_scores
    return isinstance(layer, kinds)


def _is_t5(layer):
    return type(layer).__name__ == "T5MultiHeadAttention"


# What a layer is -> how it is observed. The first that fits.
_KINDS = [
    (_is_own_mixer, _own_mixer),
    (_has_scores, _with_scores),
    (_is_t5, _before_dropout),
]
