"""`SynthesizerEncoder`: self-attention and feed-forward."""

from typing import Any

import keras

from keras_synth._backend.policies import inherit_settings
from keras_synth.layers.block import SynthesizerBlock
from keras_synth.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_synth")
class SynthesizerEncoder(SynthesizerBlock):
    """A Transformer encoder block around any synthesizer or mixer.

    It has the call of `keras_hub.layers.TransformerEncoder`, and with
    `synthesizer="V"` the same outputs.

    Args:
        intermediate_dim: Integer, width of the feed-forward network.
        num_heads: Integer, `H`.
        synthesizer: A name such as `"R"`, `"random + dot_product"` or `"fnet"`,
            a `Synthesizer` or `Mixer` without weights, or its config; see
            `keras_synth.mixers.get`. The block makes a new one from it, in its
            own dtype. An object keeps its options, such as biases and
            initializers, and a mixer its dropout of attention weights.
        max_length: Integer, longest sequence in tokens. Required for names of
            length-bound synthesizers.
        dropout: Float, fraction of attention weights and of sub-layer outputs
            to drop in training.
        activation: Activation of the feed-forward network.
        layer_norm_epsilon: Float, epsilon of the normalisations.
        kernel_initializer: Initializer of all kernels.
        bias_initializer: Initializer of all biases.
        normalize_first: Whether blocks are pre-norm, `x + f(norm(x))`, as in
            GPT-2, or post-norm, `norm(x + f(x))`, as in BERT.
        attention_use_bias: Whether the projections of attention have biases.
        key_dim: Integer, features per head, by default `d // H`.
        normalization: `"layer_normalization"` or `"rms_normalization"`.
        feed_forward_use_bias: Whether the feed-forward network has biases.
        use_gated_activation: Whether its hidden layer has a gate; see
            `FeedForward`.
        feed_forward_dropout: Float, fraction of its hidden layer to drop in
            training.
        **kwargs: Keyword arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: Tensor `(B, T, d)`.
        padding_mask: Boolean or integer `(B, T)`, True for real tokens. It
            replaces the Keras mask of `inputs`.
        attention_mask: Boolean `(B, T, T)`, True means "may attend". Under
            `tf.distribute.MirroredStrategy`, a model's inputs must be integers.
        training: Whether to apply dropout.
        return_attention_scores: Whether to also return the weights.
        attention_bias: Float tensor that broadcasts to `(B, H, T, T)`, added
            to the logits.

    Returns:
        Tensor `(B, T, d)`. With `return_attention_scores` a tuple of it and the
        weights `(B, H, T, T)`.

    Raises:
        ValueError: If a mask's shape does not fit, or the mixer does not
            support an argument.

    Example:

    >>> encoder = keras_synth.layers.SynthesizerEncoder(
    ...     intermediate_dim=256, num_heads=4, synthesizer="R", max_length=128)
    >>> encoder(keras.random.normal((2, 100, 64))).shape
    (2, 100, 64)
    """

    def build(self, inputs_shape: Shape) -> None:
        self._build_self_attention(inputs_shape)
        self.feed_forward_residual = self._residual(
            inputs_shape, "feed_forward_residual"
        )
        self.feed_forward = self._feed_forward(inputs_shape)
        inherit_settings(self)
        self.built = True

    def call(
        self,
        inputs: Tensor,
        padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
        attention_bias: Tensor | None = None,
    ) -> Tensor:
        inputs, padding_mask = self._without_nonfinite(
            inputs, "padding_mask", padding_mask
        )
        scores: list | None = [] if return_attention_scores else None
        x = self._attend(
            self.attention,
            self.attention_residual,
            inputs,
            value_mask=padding_mask,
            attention_mask=attention_mask,
            attention_bias=attention_bias,
            scores=scores,
            training=training,
        )
        x = self._feed(x, training)
        return (x, *scores) if scores else x

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return inputs_shape

    def compute_output_spec(
        self, inputs: Tensor, *args: Any, **kwargs: Any
    ) -> Any:
        if args or kwargs.get("return_attention_scores"):
            return self._traced_spec(inputs, *args, **kwargs)
        self._check_symbolic(self.attention, inputs, inputs, kwargs)
        return keras.KerasTensor(inputs.shape, self.compute_dtype)
