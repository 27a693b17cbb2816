"""How a layer's attention weights are seen from outside.

For the time of a call `call` of the layer object, or `_call_flat` of a mixer of
this package, is another function, which asks for the weights too. Each hook of
`HOOKS` is a context manager of the layer, its name, the observer, a function
that takes what is seen, and whether the parts of a mixture are seen, too.
"""

import contextlib
import inspect
import threading

import keras
import numpy as np
from keras import ops

from keras_synth._backend.execution import is_eager, is_placeholder
from keras_synth.attention.attend import attend
from keras_synth.mixers import SyntheticAttention
from keras_synth.mixers.mixer import Mixer
from keras_synth.synthesizers import MixtureSynthesizer


def as_array(x):
    """A tensor as a NumPy array."""
    return np.asarray(ops.convert_to_numpy(x))


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
        tensors = [
            x for x in keras.tree.flatten((args, kwargs)) if _is_tensor(x)
        ]
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


def _is_tensor(x):
    return ops.is_tensor(x) or isinstance(x, keras.KerasTensor)


@contextlib.contextmanager
def _own_mixer(layer, name, observer, parts):
    """Observes a mixer of this package, for one axis of tokens."""

    def make(call):
        def observing(asked):
            query, value, mask = asked.query, asked.value, asked.mask
            with _kept_logits(layer if parts else None) as logits:
                output, weights = call(asked._replace(with_scores=True))
            is_self = _same(query, value)
            visible = _allowed_pairs(mask, query, value)
            observer(name, weights, visible, mask.queries, is_self)
            for part, heads, own in logits:
                masked = mask.of_heads(heads)
                alone = _alone(layer, part, own, query, value, masked)
                visible = _allowed_pairs(masked, query, value)
                observer(part.path, alone, visible, mask.queries, is_self)
            return (output, weights) if asked.with_scores else output

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


def _allowed_pairs(mask, query, value):
    """Which pairs an `AttentionMask` lets attend, an array; or `None`."""
    mask = mask.with_pairs(query.shape[1], value.shape[1]).materialize()
    return None if mask is None else as_array(mask)


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
    return as_array(weights)


@contextlib.contextmanager
def _with_scores(layer, name, observer, parts):
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
            observer(name, weights, visible, given.get("query_mask"), is_self)
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
        mask = as_array(mask).astype(bool)
        found = mask[:, None] if mask.ndim == 3 else mask
        found = found[None, None] if found.ndim == 2 else found
    for name in ("value_mask", "key_mask"):
        keys = given.get(name)
        if keys is not None:
            found = _both(found, as_array(keys).astype(bool)[:, None, None])
    rows, columns = (np.arange(n) for n in shape[-2:])
    distance = (rows[:, None] - columns)[None, None]
    if given.get("use_causal_mask"):
        found = _both(found, distance >= 0)
    window = layer.get_config().get("sliding_window")
    return found if window is None else _both(found, abs(distance) < window)


def _both(a, b):
    return b if a is None else a & b


@contextlib.contextmanager
def _before_dropout(layer, name, observer, parts):
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
            own = as_array(weights.pop())
            is_self = kwargs.get("key_value_states") is None
            observer(name, own, own.max(1, keepdims=True) > 0, None, is_self)
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
    return a.shape == b.shape and np.array_equal(as_array(a), as_array(b))


def _is_own_mixer(layer):
    own = isinstance(layer, Mixer) and layer.supports_attention_scores
    return own and type(layer).call is Mixer.call


def _has_scores(layer):
    if isinstance(layer, Mixer):
        return layer.supports_attention_scores
    return isinstance(
        layer,
        (keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention),
    )


def _is_t5(layer):
    return type(layer).__name__ == "T5MultiHeadAttention"


# What a layer is -> how it is observed. The first that fits.
HOOKS = [
    (_is_own_mixer, _own_mixer),
    (_has_scores, _with_scores),
    (_is_t5, _before_dropout),
]
