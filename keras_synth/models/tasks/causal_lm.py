"""`SynthesizerCausalLM`: a causal language model."""

from typing import Any

import keras
import keras_hub
from keras import ops

from keras_synth.analysis import multiplications
from keras_synth.models.backbones.backbone import SynthesizerBackbone
from keras_synth.models.preprocessors.causal_lm_preprocessor import (
    SynthesizerCausalLMPreprocessor,
)
from keras_synth.models.tasks.generation import (
    checked_prompts,
    multiplications_of_lm,
    sample_tokens,
)
from keras_synth.models.tasks.task import TaskMixin
from keras_synth.types import Size, Tensor


@keras.saving.register_keras_serializable(package="keras_synth")
class SynthesizerCausalLM(TaskMixin, keras_hub.models.CausalLM):
    """A language model around a causal `SynthesizerBackbone`.

    The token embedding is also the output layer. With a preprocessor, `fit`
    accepts raw strings, and `generate` returns strings for strings. Decoding
    caches values, and keys only of dot-product parts.

    Args:
        backbone: A `SynthesizerBackbone` with `causal=True`.
        preprocessor: A `SynthesizerCausalLMPreprocessor` or `None`.
        **kwargs: Keyword arguments of `keras_hub.models.CausalLM`.

    Call arguments:
        inputs: As for `SynthesizerBackbone`.

    Returns:
        Tensor `(B, T, vocabulary_size)`, logits of the next token.

    Raises:
        ValueError: If the backbone is not causal, or the preprocessor does not
            fit it.

    Example:

    ```python
    texts = ["to be or not to be"] * 32
    tokenizer = keras_synth.models.SynthesizerBytePairTokenizer.from_texts(
        texts, vocabulary_size=280
    )
    backbone = keras_synth.models.SynthesizerBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=1,
        num_heads=2,
        hidden_dim=16,
        intermediate_dim=32,
        synthesizer="R",
        max_sequence_length=16,
        causal=True,
    )
    lm = keras_synth.models.SynthesizerCausalLM(
        backbone,
        keras_synth.models.SynthesizerCausalLMPreprocessor(
            tokenizer, sequence_length=16
        ),
    )
    lm.compile(optimizer=keras.optimizers.Adam(0.01), sampler="greedy")
    lm.fit(texts, epochs=2, verbose=0)
    text = lm.generate("to be", max_length=8)
    print(text.startswith("to be"))  # True
    ```
    """

    backbone_cls = SynthesizerBackbone
    preprocessor_cls = SynthesizerCausalLMPreprocessor

    def __init__(
        self,
        backbone: keras.Model,
        preprocessor: keras.Layer | None = None,
        **kwargs: Any,
    ) -> None:
        if not backbone.causal:
            raise ValueError(
                "A causal language model needs a backbone with causal=True. "
                f"Received: causal={backbone.causal}"
            )
        if backbone.num_segments:
            raise ValueError(
                "A causal language model decodes without segments. Make the "
                "backbone with num_segments=0. Received: "
                f"num_segments={backbone.num_segments}"
            )
        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor

        # === Functional model ===
        inputs = backbone.input
        outputs = backbone.logits(backbone(inputs))
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)

    def call_with_cache(
        self,
        token_ids: Tensor,
        cache: Tensor,
        cache_update_index: Size,
        padding_mask: Tensor | None = None,
    ) -> Tensor:
        """Calls the model on tokens that follow those in the cache.

        Args:
            token_ids: Integer tensor `(B, T)`.
            cache: Tuple with an entry for each block, from `make_caches`.
            cache_update_index: Integer or scalar integer tensor, position of
                the first token.
            padding_mask: Tensor `(B, T)`, 0 for tokens to ignore.

        Returns:
            `(logits, hidden_states, cache)`: tensors `(B, T, vocabulary_size)`
            and `(B, T, d)`, and the cache with these tokens.
        """
        x, cache = self.backbone.stack.call_with_caches(
            token_ids, cache, cache_update_index, padding_mask=padding_mask
        )
        return self.backbone.logits(x), x, cache

    def make_caches(self, batch_size: int, length: int) -> Tensor:
        """Returns empty caches for `length` tokens, one for each block."""
        return self.backbone.stack.make_caches(batch_size, length)

    def generate(self, inputs, *args, **kwargs):
        return super().generate(checked_prompts(self, inputs), *args, **kwargs)

    def generate_step(self, inputs, stop_token_ids=None):
        """Continues a batch of prompts; `generate` calls it.

        Args:
            inputs: Dictionary of tensors `(B, length)`: `"token_ids"` and
                `"padding_mask"`, True for tokens of a prompt.
            stop_token_ids: Sequence of ids that end a text, or `None` to
                generate `length` tokens.

        Returns:
            Dictionary like `inputs`, with a mask that is True up to the end of
            each text.
        """
        self.backbone.check_lengths(inputs)
        prompt, stack = inputs["token_ids"], self.backbone.stack
        token_ids, padding_mask = sample_tokens(
            self,
            stack,
            stack.call_with_caches,
            prompt,
            inputs["padding_mask"],
            self.make_caches(*ops.shape(prompt)[:2]),
            stop_token_ids,
        )
        return {"token_ids": token_ids, "padding_mask": padding_mask}


multiplications.register(SynthesizerCausalLM)(multiplications_of_lm)
