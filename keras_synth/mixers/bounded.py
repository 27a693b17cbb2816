"""`BoundedMixer`: who sees whom is learned, up to a longest sequence."""

from typing import Any

from keras import ops

from keras_synth._backend.checks import check_positive
from keras_synth.mixers.attention_checks import check_longest
from keras_synth.mixers.multi_head import MultiHeadMixer


class BoundedMixer(MultiHeadMixer):
    """Heads within one sequence of up to `max_length` tokens, not causal.

    What learns which tokens meet looks at all of them first: there is no
    causal form, and none that decodes.
    """

    supports_causal_mask = False
    supports_cross_attention = False

    def __init__(
        self, num_heads: int, key_dim: int, max_length: int, **kwargs: Any
    ) -> None:
        super().__init__(num_heads, key_dim, **kwargs)
        self.max_length = check_positive("max_length", max_length)

    def _fitting(self, name, value, default):
        """An argument in tokens, or blocks, that fits `max_length`."""
        if value is None:
            return min(default, self.max_length)
        value = check_positive(name, value)
        if value > self.max_length:
            raise ValueError(
                f"`{name}` must be at most `max_length`, the longest sequence "
                f"in tokens. Pass a smaller {name}, or a larger max_length. "
                f"Received: {name}={value}, max_length={self.max_length}"
            )
        return value

    def _fixed_weight(self, name, shape, initializer):
        """A weight in float32 that is saved and never trained."""
        return self.add_weight(
            name=name,
            shape=shape,
            initializer=initializer,
            dtype="float32",
            trainable=False,
            autocast=False,
        )

    def _check_lengths(self, query_length, source_length):
        check_longest(query_length, self.max_length)

    def _check_cache(self, query, cache, start, use_causal_mask):
        raise NotImplementedError(
            f"{type(self).__name__} has no causal form: it cannot decode."
        )


def heads_first(x):
    """`(B, T, H, f) -> (B, H, T, f)`, and back."""
    return ops.transpose(x, (0, 2, 1, 3))


def unit(x):
    """Vectors of length 1 in float32; those of length 0 stay so."""
    x = ops.cast(x, "float32")
    squares = ops.sum(ops.square(x), axis=-1, keepdims=True)
    return x * ops.rsqrt(ops.maximum(squares, 1e-12))


def taken(x, places):
    """Tokens of `(B, H, T, f)` at places `(B, H, n)`: `(B, H, n, f)`."""
    return ops.take_along_axis(x, places[..., None], axis=2)
