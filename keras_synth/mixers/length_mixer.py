"""`LengthMixer`: learned matrices along the length."""

from typing import Any

from keras import ops

from keras_synth._backend.checks import check_positive, check_seed
from keras_synth._backend.configs import Configured
from keras_synth._backend.seeds import seeded
from keras_synth.attention import masks
from keras_synth.attention.positions import window
from keras_synth.attention.projections import cloned
from keras_synth.mixers.self_mixer import SelfMixer
from keras_synth.types import Shape, Size


class LengthMixer(Configured, SelfMixer):
    """Mixes tokens by learned matrices of positions by positions."""

    supports_causal_mask = True

    def __init__(
        self, max_length: int, seed: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.max_length = check_positive("max_length", max_length)
        self.seed = check_seed("seed", seed)

    def _add_table(self, name, shape, initializer):
        """A weight in float32, which mixed precision casts where it is used."""
        return self.add_weight(
            name=name,
            shape=shape,
            initializer=cloned(seeded(initializer, self.seed, name)),
            autocast=False,
        )

    def _check_length(self, length, start=0):
        if not isinstance(length, int) or not isinstance(start, int):
            return
        if start + length > self.max_length:
            raise ValueError(
                f"A sequence of {start + length} tokens is longer than "
                f"max_length={self.max_length}. Build the mixer with a larger "
                "max_length, or shorten the input. Received: "
                f"length={start + length}, max_length={self.max_length}"
            )

    def _along(self, matrix, bias, x, rows, causal=False, start=0):
        """Multiplies by rows of a matrix along the length, and adds a bias.

        Args:
            matrix: Weight `(max_length or fewer, max_length or fewer)`.
            bias: Weight with an entry for each row, or `None`.
            x: Tensor `(B, S, d)`, for the first S columns.
            rows: Integer or scalar integer tensor, how many rows.
            causal: Whether row i has no columns above i.
            start: Integer or scalar integer tensor, the first row.

        Returns:
            Tensor `(B, rows, d)`.
        """
        columns = ops.shape(x)[1]
        matrix = window(matrix, 0, start, rows)
        matrix = window(matrix, 1, 0, columns)
        if causal:
            seen = masks.causal(rows, columns, start)[0, 0]
            matrix = ops.where(seen, matrix, ops.zeros_like(matrix))
        y = ops.matmul(ops.cast(matrix, x.dtype), x)
        if bias is None:
            return y
        bias = ops.cast(window(bias, 0, start, rows), x.dtype)
        return y + bias[:, None]

    def make_cache(self, batch_size: Size, length: int) -> Any:
        """Returns an empty cache for `length` tokens.

        Args:
            batch_size: Integer or scalar integer tensor, `B`.
            length: Integer, the most tokens to decode, up to `max_length`.

        Returns:
            Tensor `(B, length, .)`, or a dictionary of such.
        """
        self._check_supported({"query": None, "use_causal_mask": True})
        self._check_length(length)
        self._check_built()
        return self._empty_cache(batch_size, length)

    def _check_lengths(self, query_length, source_length):
        self._check_length(query_length)

    def _check_cache(self, query, cache, start, use_causal_mask):
        self._check_decodes(query, start, use_causal_mask)
        length = ops.shape(self._cache_places(cache, start))[1]
        known = start, query.shape[1], length
        are_known = all(isinstance(number, int) for number in known)
        if are_known and start + query.shape[1] > length:
            raise ValueError(
                f"The cache has room for {length} tokens. Make a longer one "
                "with `make_cache`, or decode fewer. Received: "
                f"start={start}, query.shape={tuple(query.shape)}"
            )

    def _call_cached(self, query, cache, start, mask, bias):
        x = ops.cast(query, self.compute_dtype)
        real = masks.present_padding(mask.keys, query, start)
        return self._mix_cached(x, cache, start, real, mask.keys)

    def _empty_cache(self, batch_size, length):
        """What `make_cache` returns."""
        raise NotImplementedError

    def _mix_cached(self, x, cache, start, padding_mask, cached_mask):
        """What `call_with_cache` returns.

        Args:
            x: Tensor `(B, T, d)`.
            cache: See `make_cache`.
            start: Integer or scalar integer tensor.
            padding_mask: Boolean `(B, T)`, or `None`.
            cached_mask: The same for all that the cache has room for. What
                it forbids is written as zeros.
        """
        raise NotImplementedError

    def compute_output_shape(
        self,
        query_shape: Shape,
        value_shape: Shape | None = None,
        key_shape: Shape | None = None,
    ) -> Shape:
        self._check_length(query_shape[1])
        return query_shape


def updated(cache, x, start):
    """The cache `(B, S, ...)` with `x` from position `start` on."""
    return ops.slice_update(cache, [0, start, 0], ops.cast(x, cache.dtype))
