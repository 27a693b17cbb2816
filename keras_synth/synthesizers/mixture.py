"""Learned mixtures of synthesizers."""

from collections.abc import Iterator, Sequence
from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import check_boolean
from keras_synth._backend.tensors import axis_size
from keras_synth.attention.logits import Logits
from keras_synth.attention.positions import shortest
from keras_synth.synthesizers.composite import (
    CompositeSynthesizer,
    checked_parts,
)
from keras_synth.synthesizers.dense import DenseSynthesizer
from keras_synth.synthesizers.dot_product import PairSynthesizer
from keras_synth.synthesizers.synthesizer import Synthesizer
from keras_synth.types import Identifier, Size, Tensor


@keras.saving.register_keras_serializable(package="keras_synth")
class MixtureSynthesizer(CompositeSynthesizer):
    """Mixes the logits of any number of synthesizers ("R+V", "D+V", ...).

    `S = sum_i alpha_i S_i`, where `alpha = softmax(alphas)` over the parts. The
    attention weights are one softmax of S. Parts that are biases (ALiBi, T5's
    relative positions) are not scaled: `S = sum_b S_b + sum_i alpha_i S_i`.

    Args:
        synthesizers: Sequence of synthesizers with equal `num_heads`. Their
            default names are `"part_0"`, `"part_1"`, ...
        per_head: Whether each head has its own alphas, a weight `(parts, H)`.
            Otherwise all heads share `(parts,)`.
        share_queries: Whether Dense parts use the query projection of the first
            dot-product part as `x W1 + b1`, as the authors' code does for D+V.
            Their `hidden_dim` must equal its `key_dim`.
        alphas_initializer: Initializer of `alphas`, which are equal by default.
            With `None` the logits are the plain sum.
        **kwargs: Arguments of `Synthesizer`.

    Returns:
        `Logits`, the weighted sum.

    Example:

    >>> from keras_synth import synthesizers
    >>> mixture = synthesizers.MixtureSynthesizer([
    ...     synthesizers.RandomSynthesizer(num_heads=4, max_length=128),
    ...     synthesizers.DotProductSynthesizer(num_heads=4, key_dim=16)])
    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     4, 16, synthesizer=mixture)
    >>> layer(keras.random.normal((2, 10, 64))).shape
    (2, 10, 64)
    >>> mixture.alphas.shape
    (2, 4)

    References:
        - [Tay et al., 2021](https://arxiv.org/abs/2005.00743), Mixture of
          Synthesizers.
    """

    weight_axes = {"alphas": ()}

    def __init__(
        self,
        synthesizers: Sequence[Identifier],
        per_head: bool = True,
        share_queries: bool = False,
        alphas_initializer: Identifier | None = "zeros",
        **kwargs: Any,
    ) -> None:
        parts = checked_parts(synthesizers, "A mixture")
        per_head = check_boolean("per_head", per_head)
        share_queries = check_boolean("share_queries", share_queries)
        takers = _parts_that_share(parts) if share_queries else []
        alphas_initializer = keras.initializers.get(alphas_initializer)
        super().__init__(parts, **kwargs)
        for taker in takers:
            taker.share_queries()
        self.per_head, self.share_queries = per_head, share_queries
        self.alphas_initializer = alphas_initializer
        self.key_dim = sum(part.key_dim for part in parts)
        self.num_key_value_heads = _heads_of_keys(parts)
        self.reach = shortest(*(part.reach for part in parts))
        self.is_bias = all(part.is_bias for part in parts)
        self.alphas = None

    def _heads_of(self, parts):
        heads = [part.num_heads for part in parts]
        if len(set(heads)) > 1:
            raise ValueError(
                "All parts of a mixture must have the same `num_heads`. "
                f"Received: num_heads={heads}"
            )
        return heads[0]

    def build(self, query_shape, source_shape=None):
        super().build(query_shape, source_shape)
        mixed = sum(not part.is_bias for part in self.synthesizers)
        if self.alphas_initializer is not None and mixed > 1:
            self.alphas = self.add_table(
                "alphas",
                (mixed, self.num_heads) if self.per_head else (mixed,),
                self.alphas_initializer,
            )

    def project_keys(self, source):
        keys = [part.project_keys(source) for part in self.synthesizers]
        keys = [key for key in keys if key is not None]
        if len(keys) < 2:
            return keys[0] if keys else None
        return ops.concatenate(keys, axis=-1)

    def call(self, query, keys=None, *, start=0, length=None):
        shares, total = self.shares(), None
        for i, (_, _, logits) in enumerate(
            self.logits_of_parts(query, keys, start=start, length=length)
        ):
            if shares[i] is not None:
                logits = logits.scaled(shares[i])
            total = logits if total is None else total + logits
        return total

    def logits_of_parts(
        self,
        query: Tensor,
        keys: Tensor | None = None,
        *,
        start: Size = 0,
        length: int | None = None,
    ) -> Iterator[tuple[Synthesizer, Tensor | None, Logits]]:
        """Yields each part, its keys and its logits `S_i`.

        Args: those of `call`.
        """
        source_length = axis_size(query, 1) if length is None else length
        shared = self._shared_queries(query)
        first = 0
        for part in self.synthesizers:
            own_keys = None
            if part.key_dim == self.key_dim:
                own_keys = keys
            elif part.key_dim:
                own_keys = keys[..., first : first + part.key_dim]
                first += part.key_dim
            queries = {"queries": shared[part]} if part in shared else {}
            logits = part.as_function(query)(
                query,
                keys=own_keys,
                start=start,
                length=source_length,
                **queries,
            )
            yield part, own_keys, logits

    def tables(self):
        """Returns the weights of the mixed parts, `softmax(alphas)`."""
        if self.alphas is None:
            return {}
        alphas = ops.convert_to_tensor(self.alphas)
        return {"alphas": ops.softmax(alphas, axis=0)}

    def shares(self) -> list[Tensor | None]:
        """Returns the alpha of each part, `(H,)` or `(1,)`; `None` for biases.

        Without alphas all are `None`.
        """
        mixed = [i for i, x in enumerate(self.synthesizers) if not x.is_bias]
        found: list[Tensor | None] = [None] * len(self.synthesizers)
        if self.alphas is not None:
            alphas = self.tables()["alphas"]
            alphas = ops.reshape(alphas, (len(mixed), -1))
            for row, i in enumerate(mixed):
                found[i] = alphas[row]
        return found

    def _shared_queries(self, query):
        """The query projection, for each part that uses it."""
        if not self.share_queries:
            return {}
        giver, takers = sharing_parts(self.synthesizers)
        return dict.fromkeys([giver, *takers], giver.query(query))


def _heads_of_keys(parts):
    """The number of heads of the parts' keys; raises if it differs."""
    numbers = [
        part.num_key_value_heads or part.num_heads
        for part in parts
        if part.key_dim
    ]
    if len(set(numbers)) > 1:
        raise ValueError(
            "All parts of a mixture that compare pairs of tokens must have the "
            "same number of keys. Use the same `num_key_value_heads` for all, "
            f"or leave it out. Received: {numbers} heads of keys"
        )
    return numbers[0] if numbers else None


def sharing_parts(parts):
    """Returns the dot-product part with the queries, and the Dense parts."""
    givers = [p for p in parts if isinstance(p, PairSynthesizer)]
    takers = [
        p
        for p in parts
        if isinstance(p, DenseSynthesizer) and p.hidden_dim is not None
    ]
    return (givers[0] if givers else None), takers


def _parts_that_share(parts):
    """The Dense parts that can use shared queries; raises without any."""
    giver, takers = sharing_parts(parts)
    widths = [taker.hidden_dim for taker in takers]
    if giver is None or not takers or set(widths) != {giver.key_dim}:
        raise ValueError(
            "`share_queries=True` needs a dot-product part, and a Dense part "
            "whose hidden_dim equals its key_dim. Received: "
            f"{[type(part).__name__ for part in parts]} with "
            f"key_dim={giver and giver.key_dim}, hidden_dim={widths}"
        )
    if any(taker.built for taker in takers):
        raise ValueError(
            "A DenseSynthesizer that is already built cannot share queries. "
            "Pass a new one to MixtureSynthesizer. Received: "
            f"{[taker.name for taker in takers if taker.built]}"
        )
    return takers
