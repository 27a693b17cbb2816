"""`KernelMixer`, the base of attention by products of positive features."""

from keras import ops

from keras_synth.attention import masks
from keras_synth.attention.softmax import FORBIDDEN
from keras_synth.mixers.kernel_sums import (
    State,
    causal,
    heads_first,
    source_of,
    summed,
)
from keras_synth.types import Mixin, Tensor


class KernelMixer(Mixin):
    """Base class of attention by products of positive features.

    Subclasses derive from it and `MultiHeadMixer`, in this order. They
    implement `feature_map`, set `num_features` in the constructor, and set
    `scaled` if `feature_map` returns logarithms. A decoding cache is a state of
    constant size, the sums over the past.
    """

    overwrites_cache = False
    scaled = False
    epsilon = 1e-6  # added to the sum of a row's weights

    def feature_map(
        self, queries: Tensor, keys: Tensor, training: bool | None = None
    ) -> Tensor:
        """Returns positive features, float32.

        Args:
            queries: Tensor `(B, T, H, k)`.
            keys: Tensor `(B, S, H, k)`.
            training: Whether this is a training step.

        Returns:
            Tensors `(B, T, H, f)` and `(B, S, H, f)`, and the logarithms of a
            factor of the keys' features, `(B, S, H)` or `None`.
        """
        raise NotImplementedError

    def attend(self, queries, keys, values, mask, *, training=None):
        state = self._empty(ops.shape(queries)[0])
        return self._continued(queries, keys, values, mask, state, training)[0]

    def _continued(self, queries, keys, values, mask, state, training=None):
        """Returns the context and the next `State`."""
        queries, keys, logs = self.feature_map(queries, keys, training)
        keys = masks.zero_padding(keys, mask.keys)
        if logs is not None and mask.keys is not None:
            logs = ops.where(mask.keys[..., None], logs, FORBIDDEN)
        source = source_of(keys, values, logs)
        source = self._without_dropped(source, training)
        queries = heads_first(queries)
        if mask.causal:
            found, state = causal(queries, source, state)
        else:
            state = summed(source, state)
            found = ops.matmul(queries, state.sums)
        found = heads_first(found)
        return found[..., :-1] / (found[..., -1:] + self.epsilon), state

    def _without_dropped(self, source, training):
        if self._dropout is None or not training:
            return source
        values = source.values
        keep = self.dropped(ops.ones_like(values[..., :1]), training)
        # The last column, which counts features, does not change.
        values = ops.concatenate(
            [values[..., :-1] * keep, values[..., -1:]], -1
        )
        return source._replace(values=values)

    def _empty(self, batch_size):
        shape = (batch_size, self.num_heads)
        width = (self.num_features, self.value_dim + 1)
        sums = ops.zeros((*shape, *width), "float32")
        if not self.scaled:
            return State(sums)
        return State(sums, ops.full(shape, FORBIDDEN, "float32"))

    def make_cache(self, batch_size, length):
        """Returns an empty state of a size that does not depend on the length.

        Returns:
            Dictionary of float32 tensors: `"sums"` `(B, H, f, v + 1)`, and, if
            features have a factor, `"logs"` `(B, H)`.
        """
        return _as_cache(self._empty(batch_size))

    def _cache_shapes(self, start=0):
        if start is None:
            return super()._cache_shapes(start)
        shape = (self.num_heads, self.num_features, self.value_dim + 1)
        logs = {"logs": shape[:1]} if self.scaled else {}
        return {"sums": shape, **logs}

    def _call_cached(self, call, cache, start):
        if start is None:
            return super()._call_cached(call, cache, start)
        query, mask = call.query, call.mask
        # An outer layer may have cast it to its own dtype.
        cache = {k: ops.cast(x, "float32") for k, x in cache.items()}
        state = State(**cache)
        context, state = self._continued(
            self.query(query),
            masks.zero_padding(self.key(query), mask.keys),
            masks.zero_padding(self.value(query), mask.keys),
            mask,
            state,
        )
        context = ops.cast(context, self.compute_dtype)
        return self.attention_output(context), _as_cache(state)


def _as_cache(state):
    return {k: x for k, x in state._asdict().items() if x is not None}
