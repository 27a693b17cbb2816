"""MLP-Mixer's token mixing: a multi-layer perceptron along the length."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import (
    check_boolean,
    check_positive,
    check_seed,
)
from keras_synth._backend.distributions import MODEL
from keras_synth._backend.seeds import add_table
from keras_synth.attention import masks
from keras_synth.mixers.length_mixer import along, updated
from keras_synth.mixers.self_mixer import SelfMixer
from keras_synth.types import Identifier


@keras.saving.register_keras_serializable(package="keras_synth")
class MLPMixer(SelfMixer):
    """Mixes tokens by an MLP along the length, as MLP-Mixer ("mlp_mixer").

    `y = W2 act(W1 x + b1) + b2`, the same for each of the d features; `W1` is
    `(hidden_dim, max_length)`, `W2` `(max_length, hidden_dim)`, and the biases
    have an entry per row. A sequence of T tokens uses the first T columns of
    W1 and the first T rows of W2. Padding counts as zeros; padded tokens get
    zeros.

    In the causal form, which the paper does not have, each hidden unit has a
    position: unit i sees tokens up to i, and output i sees units up to i. Both
    matrices are lower triangular, and `hidden_dim` must be `max_length`. In
    decoding a padded token must be masked when it comes: later the hidden
    units have seen it.

    Args:
        max_length: Integer, longest sequence, in tokens.
        hidden_dim: Integer, hidden units, the paper's D_S; `max_length` by
            default.
        activation: Activation of the hidden units.
        use_bias: Whether there are b1 and b2.
        kernel_initializer: Initializer of W1 and W2.
        bias_initializer: Initializer of b1 and b2.
        seed: Optional integer, seed of the initial values.
        **kwargs: Keyword arguments of `keras.layers.Layer`.

    Call arguments and output: see `SelfMixer`.

    Raises:
        ValueError: If an argument is out of range, the sequence is longer than
            `max_length`, or there is no causal form and one is asked for.

    Example:

    >>> mixer = keras_synth.mixers.MLPMixer(max_length=128)
    >>> mixer(keras.random.normal((2, 100, 64))).shape
    (2, 100, 64)

    References:
        - [Tolstikhin et al., 2021](https://arxiv.org/abs/2105.01601)
    """

    supports_causal_mask = True
    weight_axes = {"W1": (None, MODEL), "W2": (MODEL,), "b1": (MODEL,)}

    def __init__(
        self,
        max_length: int,
        hidden_dim: int | None = None,
        activation: Identifier = "gelu",
        use_bias: bool = True,
        kernel_initializer: Identifier = "glorot_uniform",
        bias_initializer: Identifier = "zeros",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.max_length = check_positive("max_length", max_length)
        self.seed = check_seed("seed", seed)
        self.hidden_dim = check_positive(
            "hidden_dim", max_length if hidden_dim is None else hidden_dim
        )
        self.supports_causal_mask = self.hidden_dim == self.max_length
        self.activation = keras.activations.get(activation)
        self.use_bias = check_boolean("use_bias", use_bias)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.W1 = self.W2 = self.b1 = self.b2 = None
        self._features: int | None = None  # of a token, once it is built

    def build(self, query_shape, value_shape=None, key_shape=None):
        self._check_rank(query_shape)
        self._features = query_shape[-1]
        shape = self.hidden_dim, self.max_length
        kernels, biases = self.kernel_initializer, self.bias_initializer
        self.W1 = add_table(self, "W1", shape, kernels)
        self.W2 = add_table(self, "W2", shape[::-1], kernels)
        if self.use_bias:
            self.b1 = add_table(self, "b1", shape[:1], biases)
            self.b2 = add_table(self, "b2", shape[1:], biases)
        self.built = True

    def _check_supported(self, arguments):
        if arguments.get("use_causal_mask") and not self.supports_causal_mask:
            raise ValueError(
                "An MLPMixer has a causal form where hidden units have "
                "positions: leave `hidden_dim` out, or make it equal to "
                f"`max_length`. Received: hidden_dim={self.hidden_dim}, "
                f"max_length={self.max_length}"
            )
        super()._check_supported(arguments)

    def mix(self, x, padding_mask=None, causal=False, training=None):
        length = ops.shape(x)[1]
        x = masks.zero_padding(x, padding_mask)
        units = length if causal else self.hidden_dim
        y = self._output(self._hidden(x, units, causal), length, causal)
        return masks.zero_padding(y, padding_mask)

    def _hidden(self, x, units, causal, start=0):
        """Hidden units `(B, units, d)` of tokens `(B, S, d)`."""
        return self.activation(along(self.W1, self.b1, x, units, causal, start))

    def _output(self, hidden, length, causal, start=0):
        return along(self.W2, self.b2, hidden, length, causal, start)

    def _cache_shapes(self, start=0):
        return dict.fromkeys(("tokens", "hidden"), (None, self._features))

    def _call_cached(self, call, cache, start):
        # A token must be forbidden when it comes: later the hidden units have
        # seen it.
        real = masks.present_padding(call.mask.keys, call.query, start)
        x = ops.cast(call.query, self.compute_dtype)
        x, length = masks.zero_padding(x, real), ops.shape(x)[1]
        tokens = updated(cache["tokens"], x, start)
        new = self._hidden(tokens, length, True, start)
        hidden = updated(cache["hidden"], new, start)
        y = self._output(hidden, length, True, start)
        cache = {"tokens": tokens, "hidden": hidden}
        return masks.zero_padding(y, real), cache
