"""Reformer: attention within buckets of similar tokens."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import check_positive
from keras_synth._backend.distributions import MODEL
from keras_synth._backend.seeds import add_table
from keras_synth._backend.tensors import indices, pad
from keras_synth.attention.routes.tile import tile_scores
from keras_synth.attention.softmax import forbid, softmax
from keras_synth.mixers.bounded import (
    FIXED,
    BoundedMixer,
    check_at_most,
    cut_into_blocks,
    join_blocks,
    take_tokens,
    unit,
)

# Added to the logit of a token and itself, which is then below the logits of
# other visible tokens and above those of hidden ones.
ITSELF = -1e5


@keras.saving.register_keras_serializable(package="keras_synth")
class ReformerAttention(BoundedMixer):
    """Compares tokens in the same bucket ("reformer").

    Keys are normalized queries, `k_j = q_j / |q_j|`, and each head computes
    `softmax_j(q_i . k_j) V` over the tokens j that i sees. In each of `hashes`
    rounds

    - the bucket of a token is `argmax [x R; -x R]` with random rotations R, so
      that similar tokens are likely to share it;
    - tokens are sorted by bucket, then by position, and cut into chunks of
      `bucket_size`;
    - i sees the tokens of its bucket in its own chunk and in the previous one,
      but itself only if it sees no other token.

    As in the paper, one softmax is over the tokens seen in any round. Time and
    memory are O(T bucket_size hashes), plus sorting.

    Padding has no influence. There is no causal form, because chunks depend on
    later tokens. Attention masks, biases and scores are not supported. The
    choice of a bucket has no gradient. Rounding can change it, so that single
    tokens can differ between precisions or devices.

    Args:
        num_heads: Integer, `H`.
        key_dim: Integer, features per head of queries, `k`.
        max_length: Integer, the longest sequence, in tokens.
        bucket_size: Integer, tokens in a chunk; by default 64, or `max_length`
            if that is less. The number of buckets is
            `max_length / bucket_size`, rounded up to an even number, or 1.
        hashes: Integer, number of rounds.
        **kwargs: Keyword arguments of `MultiHeadMixer`.

    Call arguments and output: see `MultiHeadMixer`, for one sequence.

    Raises:
        ValueError: If `bucket_size` or a sequence exceeds `max_length`.

    Example:

    >>> mixer = keras_synth.mixers.ReformerAttention(
    ...     num_heads=4, key_dim=16, max_length=128, bucket_size=16, hashes=2)
    >>> mixer(keras.random.normal((2, 100, 64))).shape
    (2, 100, 64)

    References:
        - [Kitaev et al., 2020](https://arxiv.org/abs/2001.04451)
    """

    weight_axes = {"rotations": (MODEL,)}

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        max_length: int,
        bucket_size: int | None = None,
        hashes: int = 4,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, max_length, **kwargs)
        self.bucket_size = self._block = check_at_most(
            "bucket_size", bucket_size, 64, self.max_length
        )
        self.hashes = check_positive("hashes", hashes)
        self.rotations = None

    @property
    def num_buckets(self) -> int:
        """Integer, number of buckets, without that of padding."""
        if self.bucket_size == self.max_length:
            return 1
        return 2 * -(-self.max_length // (2 * self.bucket_size))

    def _build_projections(self, query_shape, value_shape, key_shape):
        self.query = self._split_heads(query_shape, self.key_dim, "query")
        self.value = self._split_heads(value_shape, self.value_dim, "value")
        if self.num_buckets == 1:
            return
        normal = keras.initializers.RandomNormal(stddev=1.0)
        half = self.num_buckets // 2
        shape = (self.num_heads, self.hashes, self.key_dim, half)
        self.rotations = add_table(self, "rotations", shape, normal, **FIXED)

    def _mixed(self, training, is_token, x, values):
        buckets = self._buckets(x, is_token)  # (B, H, hashes, L)
        positions = indices(ops.shape(x)[2])
        # Every backend sorts stably; `bucket * L + position` would overflow.
        order = ops.argsort(buckets, axis=-1)
        places = ops.cast(ops.argsort(order, axis=-1), "int32")
        # Concatenated for each token: (B, H, L, 1 + 2 hashes).
        known = ops.broadcast_to(positions, ops.shape(buckets[:, :, :1]))
        known = [known, buckets, places // self.bucket_size]
        known = ops.swapaxes(ops.concatenate(known, axis=2), 2, 3)
        rounds = [
            self._round(x, values, known, order, places, number, training)
            for number in range(self.hashes)
        ]
        contexts, sums = (
            ops.stack(parts, axis=-1) for parts in zip(*rounds, strict=True)
        )
        # Each round's context is weighted by its sum.
        context = ops.sum(softmax(sums) * contexts, axis=-1)
        return ops.where(is_token[:, None, :, None] > 0, context, 0.0)

    def _buckets(self, x, is_token):
        """Buckets `(B, H, hashes, L)` of tokens `(B, H, L, k)`."""
        padded = is_token[:, None, None] == 0
        if self.num_buckets == 1:
            batch, heads, length, _ = ops.shape(x)
            found = ops.zeros((batch, heads, self.hashes, length), "int32")
        else:
            x = ops.stop_gradient(ops.cast(x, "float32"))
            turned = ops.einsum("bhlk,hrkn->bhrln", x, self.rotations)
            turned = ops.concatenate([turned, -turned], axis=-1)
            found = ops.cast(ops.argmax(turned, axis=-1), "int32")
        return ops.where(padded, self.num_buckets, found)

    def _round(self, x, values, known, order, places, number, training):
        """Attention in one round: its context, and logarithms of its sums.

        They are float32 tensors `(B, H, L, v)` and `(B, H, L, 1)`. `known` are
        integers `(B, H, L, 1 + 2 hashes)`: position, buckets and chunks of each
        token. `order` are the sorted tokens, and `places` those of tokens in
        this order, `(B, H, hashes, L)`.
        """
        rows, values, known = (
            cut_into_blocks(
                take_tokens(y, order[:, :, number]), self.bucket_size
            )
            for y in (x, values, known)
        )
        values = _with_previous(values)
        keys = _with_previous(ops.cast(unit(rows), rows.dtype))
        logits = tile_scores(rows, keys)
        shown = [self._shown(known, other) for other in range(self.hashes)]
        count = sum(ops.cast(one, "float32") for one in shown)
        # A pair that is visible in several rounds counts once.
        logits = logits - ops.log(ops.maximum(count, 1.0))
        positions = known[..., 0]
        itself = _pairs(ops.equal, positions)
        logits = ops.where(itself, logits + ITSELF, logits)
        logits = forbid(logits, shown[number])
        top = ops.stop_gradient(ops.amax(logits, axis=-1, keepdims=True))
        weights = ops.exp(logits - top)
        total = ops.sum(weights, axis=-1, keepdims=True)
        weights = self.dropped(weights / total, training)
        context = ops.matmul(ops.cast(weights, values.dtype), values)
        return [
            take_tokens(
                join_blocks(ops.cast(part, "float32")), places[:, :, number]
            )
            for part in (context, top + ops.log(total))
        ]

    def _shown(self, known, number):
        """Which pairs are visible in a round: `(B, H, chunks, c, 2 c)`."""
        buckets = known[..., 1 + number]
        chunks = known[..., 1 + self.hashes + number]
        away = _pairs(ops.subtract, chunks)
        is_token = (buckets < self.num_buckets)[..., None]
        same = _pairs(ops.equal, buckets) & is_token
        return same & (away >= 0) & (away <= 1)


def _with_previous(x, value=0):
    """Chunks `(B, H, chunks, c, ...)`, each after the previous one."""
    widths = [[0, 0] for _ in x.shape]
    widths[2] = [1, 0]
    before = pad(x, widths, value)[:, :, : ops.shape(x)[2]]
    return ops.concatenate([before, x], axis=3)


def _pairs(operation, x):
    """The result of an operation on integers of each row and its columns."""
    columns = _with_previous(x, -1)  # -1 is not a valid integer
    return operation(x[..., :, None], columns[..., None, :])
