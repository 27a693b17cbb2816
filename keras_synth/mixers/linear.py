"""Attention by products of positive features: its base, and the linear one."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.tensors import heads_first
from keras_synth.attention import masks
from keras_synth.attention.softmax import FORBIDDEN
from keras_synth.mixers.kernel_sums import causal, source_of, summed
from keras_synth.mixers.multi_head import MultiHeadMixer
from keras_synth.types import Tensor


class KernelMixer(MultiHeadMixer):
    """Base class of attention by products of positive features.

    Subclasses implement `feature_map`, set `num_features` in the constructor,
    and set `scaled` if `feature_map` returns logarithms. A decoding cache is a
    state of constant size, the sums over the past.
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
        source = source_of(keys, self._dropped_values(values, training), logs)
        queries = heads_first(queries)
        if mask.causal:
            found, state = causal(queries, source, state)
        else:
            state = summed(source, state)
            found = ops.matmul(queries, state["sums"])
        found = heads_first(found)
        return found[..., :-1] / (found[..., -1:] + self.epsilon), state

    def _dropped_values(self, values, training):
        if self._dropout is None or not training:
            return values
        values = heads_first(ops.cast(values, "float32"))
        return heads_first(
            values * self.dropped(ops.ones_like(values[..., :1]), training)
        )

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


@keras.saving.register_keras_serializable(package="keras_synth")
class LinearAttention(KernelMixer):
    """Attention with a state of constant size ("linear").

    With `phi(x) = elu(x) + 1`, per head,

        y_i = sum_j (phi(q_i) . phi(k_j)) v_j / (sum_j phi(q_i) . phi(k_j) + e)

    over the tokens visible to i, with `e = 1e-6`. All queries share
    `sum_j phi(k_j) v_j^T`: O(T) time and memory. In the causal form each chunk
    of tokens continues the sum of the previous one. The decoding cache is only
    this sum, `(B, H, k, v)`.

    As in the authors' code, queries are not scaled by `1 / sqrt(k)`. Attention
    masks, biases and scores are not supported.

    Args:
        num_heads: Integer, `H`.
        key_dim: Integer, features per head of queries and keys, `k`.
        **kwargs: Keyword arguments of `MultiHeadMixer`. `dropout` is the
            fraction of source tokens to omit from the sum of values in
            training. All queries of a head omit the same tokens.

    Call arguments and output: see `MultiHeadMixer`.

    Example:

    >>> mixer = keras_synth.mixers.LinearAttention(num_heads=4, key_dim=16)
    >>> mixer(keras.random.normal((2, 100, 64)), use_causal_mask=True).shape
    (2, 100, 64)

    References:
        - [Katharopoulos et al., 2020](https://arxiv.org/abs/2006.16236)
    """

    def __init__(self, num_heads: int, key_dim: int, **kwargs: Any) -> None:
        super().__init__(num_heads, key_dim, **kwargs)
        self.num_features = self.key_dim

    def feature_map(self, queries, keys, training=None):
        return _positive(queries), _positive(keys), None


def _positive(x):
    return ops.elu(ops.cast(x, "float32")) + 1.0
