"""`SynthesizerSeq2SeqBackbone`: an encoder and a decoder."""

from typing import Any

import keras

from keras_synth._backend.configs import arguments_of, config_of
from keras_synth.analysis import multiplications
from keras_synth.analysis.counts import added, of_layers
from keras_synth.folding import folded_config
from keras_synth.models.backbones.embeddings import token_embedding
from keras_synth.models.backbones.stack import Stack
from keras_synth.models.backbones.stacked import StackedBackbone, check_sizes
from keras_synth.types import Identifier


@keras.saving.register_keras_serializable(package="keras_synth")
class SynthesizerSeq2SeqBackbone(StackedBackbone):
    """A Transformer with synthesized attention in encoder and decoder.

    Encoder and decoder share one token embedding.

    Args:
        vocabulary_size: Integer, number of token ids, of source and target.
        num_layers: Integer, number of encoder blocks, and of decoder blocks.
        num_heads: Integer, attention heads of each block.
        hidden_dim: Integer, model width `d`, divisible by `num_heads` unless
            `key_dim` is set.
        intermediate_dim: Integer, width of the feed-forward networks.
        synthesizer: Synthesizer or mixer of the self-attention: a name such as
            `"R"`, `"random + dot_product"` or `"fnet"`, an object without
            weights, or a config; see `keras_synth.mixers.get`. Or a list of
            them, one for each encoder block. An integer in the list shares an
            earlier block's synthesizer: `["R", 0, 0]`.
        decoder_synthesizer: The same for the decoder; by default the encoder's.
            A mixer must have a causal form.
        cross_synthesizer: The same for the decoder's cross-attention. (The
            paper found no replacement for the dot product there.)
        cross_num_heads: Integer, heads of the cross-attention, by default
            `num_heads`.
        cross_key_dim: Integer, features per head of the cross-attention; by
            default `key_dim`, or `hidden_dim // cross_num_heads` if the number
            of heads differs.
        num_decoder_layers: Integer, number of decoder blocks, by default
            `num_layers`.
        dropout: Float, fraction of embeddings, attention weights and sub-layer
            outputs to drop in training.
        max_sequence_length: Integer, longest source in tokens.
        max_decoder_length: Integer, longest target in tokens, by default
            `max_sequence_length`.
        positions: As for `SynthesizerBackbone`, with a table for each stack,
            like the arguments `activation`, `layer_norm_epsilon`,
            `normalize_first`, `attention_use_bias`, `key_dim`, `normalization`,
            `feed_forward_use_bias`, `use_gated_activation`,
            `feed_forward_dropout`, `scale_output`, `dtype` and keyword
            arguments of `keras_hub.models.Backbone`.
        tie_embedding_weights: Whether the output layer of language models is
            the token embedding. Otherwise it has its own weights, as in T5 1.1.

    Call arguments:
        inputs: Dictionary of integer tensors: `"encoder_token_ids"` and
            `"encoder_padding_mask"`, `(B, S)`, `"decoder_token_ids"` and
            `"decoder_padding_mask"`, `(B, T)`. Masks are 1 for real tokens.
        encoder_attention_bias: Float tensor that broadcasts to
            `(B, H, S, S)`, added to the logits of the encoder's
            self-attention, in every block.
        decoder_attention_bias: `(B, H, T, T)`, the same for the decoder.
        cross_attention_bias: `(B, H, T, S)`, the same for cross-attention.

    Returns:
        Dictionary of tensors: `"encoder_sequence_output"`,
        `(B, S, hidden_dim)`, and `"decoder_sequence_output"`,
        `(B, T, hidden_dim)`.

    Raises:
        ValueError: If an argument is out of range.

    Example:

    >>> backbone = keras_synth.models.SynthesizerSeq2SeqBackbone(
    ...     vocabulary_size=100, num_layers=1, num_heads=2, hidden_dim=16,
    ...     intermediate_dim=32, synthesizer="R", max_sequence_length=16)
    >>> source, target = np.ones((1, 12), "int32"), np.ones((1, 9), "int32")
    >>> backbone({
    ...     "encoder_token_ids": source, "encoder_padding_mask": source,
    ...     "decoder_token_ids": target, "decoder_padding_mask": target,
    ... })["decoder_sequence_output"].shape
    (1, 9, 16)
    """

    def __init__(
        self,
        vocabulary_size: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        intermediate_dim: int,
        synthesizer: Identifier,
        decoder_synthesizer: Identifier | None = None,
        cross_synthesizer: Identifier = "dot_product",
        cross_num_heads: int | None = None,
        cross_key_dim: int | None = None,
        num_decoder_layers: int | None = None,
        dropout: float = 0.1,
        max_sequence_length: int = 512,
        max_decoder_length: int | None = None,
        activation: Identifier = "relu",
        layer_norm_epsilon: float = 1e-5,
        normalize_first: bool = True,
        positions: str | None = "sinusoidal",
        attention_use_bias: bool = True,
        key_dim: int | None = None,
        normalization: str = "layer_normalization",
        feed_forward_use_bias: bool = True,
        use_gated_activation: bool = False,
        feed_forward_dropout: float = 0.0,
        scale_output: bool = False,
        tie_embedding_weights: bool = True,
        dtype: Identifier | None = None,
        **kwargs: Any,
    ) -> None:
        if decoder_synthesizer is None:
            decoder_synthesizer = synthesizer
        if num_decoder_layers is None:
            num_decoder_layers = num_layers
        if max_decoder_length is None:
            max_decoder_length = max_sequence_length
        arguments = arguments_of(SynthesizerSeq2SeqBackbone, locals())
        shared = {"options": check_sizes(arguments), "positions": positions}

        # === Layers ===
        self.token_embedding = token_embedding(arguments)
        self.encoder = Stack(
            self.token_embedding,
            synthesizer,
            num_layers=num_layers,
            max_length=max_sequence_length,
            prefix="encoder_",
            **shared,
        )
        self.decoder = Stack(
            self.token_embedding,
            decoder_synthesizer,
            num_layers=num_decoder_layers,
            max_length=max_decoder_length,
            prefix="decoder_",
            decoder=True,
            max_source_length=max_sequence_length,
            cross_synthesizer=cross_synthesizer,
            cross_num_heads=cross_num_heads,
            cross_key_dim=cross_key_dim,
            **shared,
        )

        # === Functional model ===
        inputs = {
            name: keras.Input((None,), dtype="int32", name=name)
            for side in ("encoder", "decoder")
            for name in (f"{side}_token_ids", f"{side}_padding_mask")
        }
        outputs = self._read_both(inputs)
        super().__init__(inputs=inputs, outputs=outputs, dtype=dtype, **kwargs)

        # === Config ===
        self._keep(arguments)

    def _read_both(
        self,
        inputs,
        encoder_attention_bias=None,
        decoder_attention_bias=None,
        cross_attention_bias=None,
    ):
        padding_mask = inputs["encoder_padding_mask"]
        encoded = self.encoder(
            inputs["encoder_token_ids"],
            padding_mask,
            attention_bias=encoder_attention_bias,
        )
        decoded = self.decoder(
            inputs["decoder_token_ids"],
            inputs["decoder_padding_mask"],
            encoded=encoded,
            encoder_padding_mask=padding_mask,
            attention_bias=decoder_attention_bias,
            cross_attention_bias=cross_attention_bias,
        )
        return {
            "encoder_sequence_output": encoded,
            "decoder_sequence_output": decoded,
        }

    # Keras passes `training` only to a `call` that names it.
    def call(
        self,
        inputs,
        training=None,
        mask=None,
        encoder_attention_bias=None,
        decoder_attention_bias=None,
        cross_attention_bias=None,
        **kwargs,
    ):
        self.check_lengths(inputs)
        biases = (
            encoder_attention_bias,
            decoder_attention_bias,
            cross_attention_bias,
        )
        if any(bias is not None for bias in biases):
            # They are not inputs of the functional model.
            return self._read_both(inputs, *biases)
        return super().call(inputs, training=training, mask=mask, **kwargs)

    def get_config(self) -> dict[str, Any]:
        return config_of(self, SynthesizerSeq2SeqBackbone, super().get_config())


@multiplications.register(SynthesizerSeq2SeqBackbone)
def _multiplications(backbone, length, source_length):
    return added(
        of_layers(backbone.encoder.blocks, source_length, source_length),
        of_layers(backbone.decoder.blocks, length, source_length),
    )


@folded_config.register(SynthesizerSeq2SeqBackbone)
def _folded_config(backbone, folding):
    source = folding.up_to(backbone.max_sequence_length)
    target = folding.up_to(backbone.max_decoder_length)
    longest = max(source, target, key=lambda side: side.max_length)
    decoder = backbone.decoder.folded_templates(longest)
    return {
        **backbone.get_config(),
        "max_sequence_length": source.max_length,
        "max_decoder_length": target.max_length,
        "decoder_synthesizer": decoder["synthesizer"],
        "cross_synthesizer": decoder["cross_synthesizer"],
        **backbone.encoder.folded_templates(source),
    }
