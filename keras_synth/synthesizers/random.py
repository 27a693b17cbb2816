"""Logits from tables of positions."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import (
    check_above_zero,
    check_boolean,
    check_positive,
)
from keras_synth._backend.distributions import MODEL
from keras_synth._backend.internals import open_for_state
from keras_synth._backend.seeds import normal_unless
from keras_synth.attention.logits import Logits
from keras_synth.synthesizers.synthesizer import Synthesizer
from keras_synth.types import Identifier, Tensor

# Initial standard deviation of the logits. The weights of a row differ by about
# a tenth: they are close to uniform, but different in all rows and heads.
INITIAL_STDDEV = 0.1


@keras.saving.register_keras_serializable(package="keras_synth")
class RandomSynthesizer(Synthesizer):
    """Attends by position only ("R"; with `fixed=True`, "Fix").

    `S[i, j] = g R[i, j]`, one trainable table per head. A sequence of n tokens
    uses `R[:, :n, :n]`. The gain g is 1 in the paper. With optimizers such as
    Adam, logits change g times as fast.

    Initially `g R ~ N(0, 0.1^2)`, which makes attention nearly uniform. For a
    fixed table with pronounced weights, pass an `initializer` of larger scale.

    Args:
        num_heads: Integer, `H`.
        max_length: Integer, the paper's N, in tokens.
        fixed: Whether the table is never trained, even if `trainable` is set on
            the layer or on a model around it.
        long_inputs: `"error"`, or `"tile"`: `S[i, j] = R[i mod N, j mod N]`.
        initializer: Initializer of R, a normal distribution with standard
            deviation `0.1 / g` by default.
        regularizer: Optional regularizer of R.
        gain: Float, `g`.
        **kwargs: Arguments of `Synthesizer`.

    Returns:
        `Logits`: bias `(1, H, T, S)`.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     4, 16, synthesizer="random", max_length=128)
    >>> layer(keras.random.normal((2, 10, 64))).shape
    (2, 10, 64)
    >>> layer.synthesizer.R.shape
    (4, 128, 128)

    References:
        - [Tay et al., 2021](https://arxiv.org/abs/2005.00743), Random and
          Fixed Random variants.
    """

    reads_tokens = False
    weight_axes = {"R": (MODEL,)}
    last_weights = ("R",)
    position_axes = {"R": (1, 2)}

    def __init__(
        self,
        num_heads: int,
        max_length: int,
        fixed: bool = False,
        long_inputs: str = "error",
        initializer: Identifier | None = None,
        regularizer: Identifier | None = None,
        gain: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_heads,
            check_positive("max_length", max_length),
            long_inputs,
            **kwargs,
        )
        self.fixed = check_boolean("fixed", fixed)
        self.gain = check_above_zero("gain", gain)
        self.initializer = normal_unless(
            initializer, INITIAL_STDDEV / self.gain
        )
        self.regularizer = keras.regularizers.get(regularizer)
        self.R: Tensor = None
        self.lora_R_a: Tensor = None  # LoRA computes R + a b
        self.lora_R_b: Tensor = None

    def build(self, query_shape, source_shape=None):
        self.R = self.add_table(
            "R",
            (self.num_heads, self.max_length, self.max_length),
            self.initializer,
            regularizer=self.regularizer,
            trainable=not self.fixed,
        )

    def call(self, query, keys=None, *, start=0, length=None):
        target_length, source_length = self.lengths(query, start, length)
        rows = self.window(self._table(), 1, start, target_length)
        table = self.window(rows, 2, 0, source_length)
        return Logits(bias=_times(self.gain, table)[None])

    def tables(self):
        """Returns the table of logits, `(H, N, N)`."""
        return {"R": _times(self.gain, self._table())}

    def _table(self):
        if self.lora_R_a is None:
            return self.R
        return ops.add(self.R, ops.matmul(self.lora_R_a, self.lora_R_b))

    def enable_lora(self, rank):
        """Adds a trainable update of low rank, `R + a b`, unless R is fixed.

        `a` is `(H, N, rank)`, `b` is `(H, rank, N)`. Saved files contain the
        sum, as for Keras' layers.

        Args:
            rank: Integer, columns of `a` and rows of `b`.

        Raises:
            ValueError: If the layer is not built, `rank` is not positive, or
                LoRA is already enabled.
        """
        if self.fixed:
            return
        if self.lora_R_a is not None:
            raise ValueError(
                "LoRA can be enabled only once for each layer. Received: "
                f"enable_lora({rank}) of {self!r}, where it is enabled"
            )
        super().enable_lora(rank)
        heads, length = self.num_heads, self.max_length
        # `b` changes the logits as fast as R would.
        initializer = keras.initializers.RandomNormal(stddev=rank**-0.5)
        with open_for_state(self):
            self.lora_R_a, self.lora_R_b = (
                self.add_table(f"lora_R_{name}", shape, start, dtype="float32")
                for name, shape, start in (
                    ("a", (heads, length, rank), initializer),
                    ("b", (heads, rank, length), "zeros"),
                )
            )
        self.lora_R_a.trainable = self.lora_R_b.trainable = True
        self.R.trainable = False

    def save_own_variables(self, store):
        if self.lora_R_a is None:
            super().save_own_variables(store)
        else:
            store["0"] = ops.convert_to_numpy(self._table())

    def load_own_variables(self, store):
        if self.lora_R_a is None:
            super().load_own_variables(store)
        else:
            self.R.assign(store["0"])
            self.lora_R_b.assign(ops.zeros(self.lora_R_b.shape))


@keras.saving.register_keras_serializable(package="keras_synth")
class FactorizedRandomSynthesizer(Synthesizer):
    """Attends by position only, with a table of low rank ("FR").

    `S = g R1 R2^T`, where R1 and R2 are `(N, r)` per head: `2 N r` parameters
    instead of `N^2`. (In the authors' public code all rows of S are equal,
    because of a broadcast instead of a matrix product.)

    The initial standard deviation of R1 and R2 is `((0.1 / g)^2 / r)^(1/4)`.
    The standard deviation of the logits is then 0.1, as in `RandomSynthesizer`.

    Args:
        num_heads: Integer, `H`.
        max_length: Integer, the paper's N, in tokens.
        rank: Integer, `r`; 8 as in the paper.
        long_inputs: `"error"`, or `"tile"`: `S[i, j] = S[i mod N, j mod N]`.
        initializer: Initializer of R1 and R2, by default as above.
        regularizer: Optional regularizer of R1 and R2.
        gain: Float, `g`.
        **kwargs: Arguments of `Synthesizer`.

    Returns:
        `Logits`: queries g R1 `(1, T, H, r)` and keys R2 `(1, S, H, r)`.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     4, 16, synthesizer="factorized_random(rank=16)", max_length=128)
    >>> layer(keras.random.normal((2, 10, 64))).shape
    (2, 10, 64)

    References:
        - [Tay et al., 2021](https://arxiv.org/abs/2005.00743), Factorized
          Random variant.
    """

    reads_tokens = False
    weight_axes = {"R1": (MODEL,), "R2": (MODEL,)}
    last_weights = ("R1",)  # one factor, so that the other has gradients
    position_axes = {"R1": (1,), "R2": (1,)}

    def __init__(
        self,
        num_heads: int,
        max_length: int,
        rank: int = 8,
        long_inputs: str = "error",
        initializer: Identifier | None = None,
        regularizer: Identifier | None = None,
        gain: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_heads,
            check_positive("max_length", max_length),
            long_inputs,
            **kwargs,
        )
        self.rank = check_positive("rank", rank)
        self.gain = check_above_zero("gain", gain)
        self.initializer = normal_unless(
            initializer,
            ((INITIAL_STDDEV / self.gain) ** 2 / self.rank) ** 0.25,
        )
        self.regularizer = keras.regularizers.get(regularizer)
        self.R1 = self.R2 = None

    def build(self, query_shape, source_shape=None):
        self.R1, self.R2 = (
            self.add_table(
                name,
                (self.num_heads, self.max_length, self.rank),
                self.initializer,
                regularizer=self.regularizer,
            )
            for name in ("R1", "R2")
        )

    def call(self, query, keys=None, *, start=0, length=None):
        target_length, source_length = self.lengths(query, start, length)
        rows = self.window(self.R1, 1, start, target_length)
        rows = _times(self.gain, rows)
        columns = self.window(self.R2, 1, 0, source_length)
        rows, columns = (
            ops.transpose(x, (1, 0, 2))[None] for x in (rows, columns)
        )
        return Logits(queries=rows, keys=columns)

    def tables(self):
        """Returns the product of the factors, `(H, N, N)`."""
        factors = map(ops.convert_to_tensor, (self.R1, self.R2))
        table = ops.einsum("hir,hjr->hij", *factors)
        return {"R": _times(self.gain, table)}


def _times(gain, table):
    return table if gain == 1 else ops.multiply(table, gain)
