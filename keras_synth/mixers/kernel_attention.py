"""`KernelMixer`, the base of attention by products of positive features."""

from keras import ops

from keras_synth._backend.tensors import heads_first
from keras_synth.attention import masks
from keras_synth.attention.softmax import FORBIDDEN
from keras_synth.mixers.kernel_sums import causal, source_of, summed
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
        """Returns positive features of queries and keys `(B, T, H, k)`.

        They are float32 tensors `(B, T, H, f)`. The third result are logarithms
        of a factor of the keys' features, `(B, S, H)`, or `None`.
        """
        raise NotImplementedError

    def attend(self, queries, keys, values, mask, *, training=None):
        state = self.make_cache(ops.shape(queries)[0], None)
        return self._continued(queries, keys, values, mask, state, training)[0]

    def _continued(self, queries, keys, values, mask, state, training=None):
        """The context and the next state."""
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
            found = ops.matmul(queries, state["sums"])
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

    def make_cache(self, batch_size, length):
        """Returns an empty state of a size that does not depend on the length.

        Returns:
            Dictionary of float32 tensors: `"sums"` `(B, H, f, v + 1)`, and, if
            features have a factor, `"logs"` `(B, H)`.
        """
        shapes, empty = self._cache_shapes(), {"sums": 0.0, "logs": FORBIDDEN}
        return {
            name: ops.full((batch_size, *shape), empty[name], "float32")
            for name, shape in shapes.items()
        }

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
        state = {k: ops.cast(x, "float32") for k, x in cache.items()}
        context, state = self._continued(
            self.query(query),
            masks.zero_padding(self.key(query), mask.keys),
            masks.zero_padding(self.value(query), mask.keys),
            mask,
            state,
        )
        context = ops.cast(context, self.compute_dtype)
        return self.attention_output(context), state
