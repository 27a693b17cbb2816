"""Logits that compare tokens by a small network: additive attention."""

import keras
from keras import ops

from keras_synth._backend.distributions import MODEL
from keras_synth._backend.execution import is_compiled_by_torch
from keras_synth._backend.loops import rematerialized, summed
from keras_synth.attention.logits import Logits, float32
from keras_synth.synthesizers.dot_product import PairSynthesizer
from keras_synth.types import Tensor


@keras.saving.register_keras_serializable(package="keras_synth")
class AdditiveSynthesizer(PairSynthesizer):
    """Compares each pair of tokens with a hidden layer ("additive").

    `S_ij = sum_f w_f tanh(q_if + k_jf)` per head, where q and k are projections
    of the query and the source. The weight w is `(H, k)`, with the initializer
    of the kernels.

    The layer sums the logits `(B, H, T, S)` one feature at a time, and again
    for the gradient. It never makes a tensor `(B, T, S, H, k)`.

    Args:
        num_heads: Integer, `H`.
        key_dim: Integer, width of the hidden layer, `k`.
        use_bias: Whether the projections have a bias.
        fixed: Whether the weights are never trained.
        **kwargs: Options of the projections, as for `DotProductSynthesizer`,
            and arguments of `Synthesizer`.

    Call arguments: those of `DotProductSynthesizer`.

    Returns:
        `Logits`: bias `(B, H, T, S)`.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     4, 16, synthesizer="additive + R", max_length=10)
    >>> layer(keras.random.normal((2, 10, 64))).shape
    (2, 10, 64)

    References:
        - [Bahdanau et al., 2015](https://arxiv.org/abs/1409.0473)
    """

    weight_axes = {"scale": (MODEL,)}
    last_weights = ("scale",)
    remembers_last = True

    scale: Tensor = None

    def build(self, query_shape, source_shape=None):
        options = self._projections.options
        self.scale = self.add_table(
            "scale",
            (self.num_heads, self.key_dim),
            options["kernel_initializer"],
            regularizer=options["kernel_regularizer"],
            constraint=options["kernel_constraint"],
            trainable=not self.fixed,
        )
        super().build(query_shape, source_shape)

    def call(self, query, keys=None, queries=None, *, start=0, length=None):
        if queries is None:
            queries = self.query(query)
        scale = ops.convert_to_tensor(self.scale)
        return Logits(bias=pair_logits(queries, keys, scale))


def pair_logits(queries, keys, scale):
    """Returns `sum_f scale_f tanh(queries_f + keys_f)` in float32.

    `(B, T, H, k), (B, S, H, k), (H, k) -> (B, H, T, S)`.
    """
    # (k, B, H, T, 1) and (k, B, H, 1, S): a slice for each feature.
    queries = ops.transpose(float32(queries), (3, 0, 2, 1))[..., :, None]
    keys = ops.transpose(float32(keys), (3, 0, 2, 1))[..., None, :]
    scale = ops.transpose(float32(scale))[:, None, :, None, None]
    if is_compiled_by_torch():  # which fuses this into one loop
        return ops.sum(scale * ops.tanh(queries + keys), axis=0)
    # Keep no tensor of pairs per feature for the gradient.
    of_feature = rematerialized(lambda q, k, w: w * ops.tanh(q + k))
    shape = (*ops.shape(queries)[1:4], ops.shape(keys)[4])
    total = ops.zeros(shape, "float32")
    return summed(of_feature, (queries, keys, scale), total)
