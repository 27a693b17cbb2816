"""`SynthesizerSeq2SeqLM`: translation, summaries, dialogue."""

from typing import Any

import keras
import keras_hub
from keras import ops

from keras_synth.analysis import multiplications
from keras_synth.models.backbones.seq2seq_backbone import (
    SynthesizerSeq2SeqBackbone,
)
from keras_synth.models.preprocessors.seq2seq_lm_preprocessor import (
    SynthesizerSeq2SeqLMPreprocessor,
)
from keras_synth.models.tasks.generation import (
    checked_prompts,
    multiplications_of_lm,
    sample_tokens,
)
from keras_synth.models.tasks.task import TaskMixin
from keras_synth.types import Size, Tensor


@keras.saving.register_keras_serializable(package="keras_synth")
class SynthesizerSeq2SeqLM(TaskMixin, keras_hub.models.Seq2SeqLM):
    """A sequence-to-sequence model around a `SynthesizerSeq2SeqBackbone`.

    The token embedding is also the output layer. With a preprocessor, `fit`
    accepts raw strings, and `generate` returns strings for strings. Decoding
    caches values, and keys only of dot-product parts.

    Args:
        backbone: A `SynthesizerSeq2SeqBackbone`.
        preprocessor: A `SynthesizerSeq2SeqLMPreprocessor` or `None`.
        **kwargs: Keyword arguments of `keras_hub.models.Seq2SeqLM`.

    Call arguments:
        inputs: As for `SynthesizerSeq2SeqBackbone`.

    Returns:
        Tensor `(B, T, vocabulary_size)`, logits of the next target token.

    Raises:
        ValueError: If the preprocessor does not fit the backbone.

    Example:

    ```python
    sources, targets = keras_synth.datasets.generated_translations(32)
    tokenizer = keras_synth.models.SynthesizerBytePairTokenizer.from_texts(
        sources + targets, vocabulary_size=300
    )
    backbone = keras_synth.models.SynthesizerSeq2SeqBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=1,
        num_heads=2,
        hidden_dim=16,
        intermediate_dim=32,
        synthesizer="R",
        max_sequence_length=16,
    )
    lm = keras_synth.models.SynthesizerSeq2SeqLM(
        backbone,
        keras_synth.models.SynthesizerSeq2SeqLMPreprocessor(tokenizer, 16, 16),
    )
    lm.compile(optimizer=keras.optimizers.Adam(0.01), sampler="greedy")
    lm.fit({"encoder_text": sources, "decoder_text": targets}, verbose=0)
    texts = lm.generate(["the big dog saw a fox", "two cats sing"], 8)
    print(len(texts))  # 2
    ```
    """

    backbone_cls = SynthesizerSeq2SeqBackbone
    preprocessor_cls = SynthesizerSeq2SeqLMPreprocessor

    def __init__(
        self,
        backbone: keras.Model,
        preprocessor: keras.Layer | None = None,
        **kwargs: Any,
    ) -> None:
        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor

        # === Functional model ===
        inputs = backbone.input
        hidden_states = backbone(inputs)["decoder_sequence_output"]
        super().__init__(
            inputs=inputs, outputs=backbone.logits(hidden_states), **kwargs
        )

    def call_decoder_with_cache(
        self,
        token_ids: Tensor,
        cache: Tensor,
        cache_update_index: Size,
        sources: Tensor,
        encoder_padding_mask: Tensor,
        padding_mask: Tensor | None = None,
    ) -> Tensor:
        """Calls the decoder on tokens that follow those in the cache.

        Args:
            token_ids: Integer tensor `(B, T)`.
            cache: Tuple with an entry for each decoder block.
            cache_update_index: Integer or scalar integer tensor, position of
                the first token.
            sources: Tuple of one cross-attention cache for each block, from
                `call_encoder`.
            encoder_padding_mask: Integer tensor `(B, S)`.
            padding_mask: Tensor `(B, T)`, 0 for target tokens to ignore.

        Returns:
            `(logits, hidden_states, cache)`: tensors `(B, T, vocabulary_size)`
            and `(B, T, d)`, and the cache with these tokens.
        """
        x, cache = self.backbone.decoder.call_with_caches(
            token_ids,
            cache,
            cache_update_index,
            sources,
            encoder_padding_mask,
            padding_mask,
        )
        return self.backbone.logits(x), x, cache

    def call_encoder(self, token_ids: Tensor, padding_mask: Tensor) -> Tensor:
        """Returns the cross-attention caches of the decoder blocks.

        Args:
            token_ids: Integer tensor `(B, S)`.
            padding_mask: Tensor `(B, S)`, 1 for real tokens.

        Returns:
            Tuple of one cache for each block: values, and keys if its
            cross-attention compares pairs.
        """
        encoded = self.backbone.encoder(token_ids, padding_mask)
        return tuple(
            block.cross_attention.remember(encoded)
            for block in self.backbone.decoder.blocks
        )

    def generate(self, inputs, *args, **kwargs):
        return super().generate(checked_prompts(self, inputs), *args, **kwargs)

    def generate_step(self, inputs, stop_token_ids=None):
        """Generates targets for a batch of sources; `generate` calls it.

        Args:
            inputs: Dictionary of tensors as for the model;
                `"decoder_padding_mask"` is True for tokens of a prompt.
            stop_token_ids: Sequence of ids that end a text, or `None` to
                generate the full length.

        Returns:
            Dictionary of `"decoder_token_ids"` and `"decoder_padding_mask"`,
            True up to the end of each text.
        """
        self.backbone.check_lengths(inputs)
        prompt = inputs["decoder_token_ids"]
        encoder_mask = ops.cast(inputs["encoder_padding_mask"], "int32")
        sources = self.call_encoder(inputs["encoder_token_ids"], encoder_mask)
        decoder = self.backbone.decoder

        # Sources are with the caches, because beam search repeats both.
        def step(token_ids, caches, start, padding_mask=None):
            own, sources, encoder_mask = caches
            hidden, own = decoder.call_with_caches(
                token_ids, own, start, sources, encoder_mask, padding_mask
            )
            return hidden, (own, sources, encoder_mask)

        caches = decoder.make_caches(*ops.shape(prompt)[:2])
        token_ids, padding_mask = sample_tokens(
            self,
            decoder,
            step,
            prompt,
            inputs["decoder_padding_mask"],
            (caches, sources, encoder_mask),
            stop_token_ids,
        )
        return {
            "decoder_token_ids": token_ids,
            "decoder_padding_mask": padding_mask,
        }


multiplications.register(SynthesizerSeq2SeqLM)(multiplications_of_lm)
