"""`SynthesizerMaskedLM`: a model of hidden tokens."""

from collections.abc import Sequence
from typing import Any

import keras
import keras_hub
import numpy as np
from keras import ops

from keras_synth._backend.checks import check_positive
from keras_synth._backend.internals import sublayers
from keras_synth.analysis import multiplications
from keras_synth.analysis.counts import added
from keras_synth.folding import plain_layer
from keras_synth.models.backbones.backbone import SynthesizerBackbone
from keras_synth.models.preprocessors.arrays import as_array
from keras_synth.models.preprocessors.columns import column, decoded
from keras_synth.models.preprocessors.masked_lm_preprocessor import (
    SynthesizerMaskedLMPreprocessor,
)
from keras_synth.models.tasks.examples import check_batches
from keras_synth.models.tasks.task import TaskMixin


@keras.saving.register_keras_serializable(package="keras_synth")
class SynthesizerMaskedLM(TaskMixin, keras_hub.models.MaskedLM):
    """Pretrains a `SynthesizerBackbone` with hidden tokens, like BERT.

    With a preprocessor, `fit` and `evaluate` accept raw strings. Without one,
    they accept the preprocessor's results; see
    `keras_synth.pretraining.mask_tokens`. `fit` hides other tokens in each
    epoch; `evaluate` always hides the same tokens.

    Args:
        backbone: A `SynthesizerBackbone` that is not causal.
        preprocessor: A `SynthesizerMaskedLMPreprocessor` or `None`.
        **kwargs: Keyword arguments of `keras_hub.models.MaskedLM`.

    Call arguments:
        inputs: As for `SynthesizerBackbone`, and `"mask_positions"`, integer
            tensor `(B, M)`.

    Returns:
        Tensor `(B, M, vocabulary_size)`, logits of the hidden tokens.

    Raises:
        ValueError: If the backbone is causal, or the preprocessor does not
            fit it.

    Example:

    ```python
    texts, _ = keras_synth.datasets.generated_reviews(64)
    words = sorted({word for text in texts for word in text.lower().split()})
    tokenizer = keras_synth.models.SynthesizerTokenizer(
        ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", *words]
    )
    masked_lm = keras_synth.models.SynthesizerMaskedLM(
        keras_synth.models.SynthesizerBackbone(
            vocabulary_size=tokenizer.vocabulary_size(),
            num_layers=1,
            num_heads=2,
            hidden_dim=16,
            intermediate_dim=32,
            synthesizer="R+V",
            max_sequence_length=32,
        ),
        keras_synth.models.SynthesizerMaskedLMPreprocessor(
            tokenizer, sequence_length=32
        ),
    )
    masked_lm.fit(texts, epochs=2, verbose=0)
    guesses = masked_lm.fill_mask("a [MASK] film", top_k=3)
    print(len(guesses[0]))  # 3
    ```
    """

    backbone_cls = SynthesizerBackbone
    preprocessor_cls = SynthesizerMaskedLMPreprocessor

    def __init__(
        self,
        backbone: keras.Model,
        preprocessor: keras.Layer | None = None,
        **kwargs: Any,
    ) -> None:
        if backbone.causal:
            raise ValueError(
                "A masked language model also reads the tokens after a hidden "
                "one. Pass a backbone with causal=False. Received: "
                f"causal={backbone.causal}"
            )
        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.masked_lm_head = keras_hub.layers.MaskedLMHead(
            token_embedding=backbone.token_embedding,
            intermediate_activation="gelu",
            layer_norm_epsilon=backbone.layer_norm_epsilon,
            dtype=backbone.dtype_policy,
            name="mlm_head",
        )

        # === Functional model ===
        inputs = {
            **backbone.input,
            "mask_positions": keras.Input(
                (None,), dtype="int32", name="mask_positions"
            ),
        }
        outputs = self.masked_lm_head(
            backbone(backbone.input), inputs["mask_positions"]
        )
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)

    def fill_mask(self, texts: Sequence[str], top_k: int = 5) -> Any:
        """Predicts the tokens at `[MASK]`.

        Args:
            texts: A string with one or more mask tokens, or a list of them.
            top_k: Integer, number of guesses for each mask token.

        Returns:
            List with an entry for each mask token in order: a list of `top_k`
            tuples, tokens and their probabilities, the most likely first. For a
            list of texts, a list of these. Special tokens are never guessed.

        Raises:
            ValueError: If there is no preprocessor, or a text has no mask or is
                longer than the preprocessor's `sequence_length`.
        """
        check_positive("top_k", top_k)
        if self.preprocessor is None:
            raise ValueError(
                "`fill_mask` needs a preprocessor for strings. Build the model "
                "with one, or set model.preprocessor. Received: "
                "preprocessor=None"
            )
        alone = isinstance(texts, (str, bytes))
        texts = decoded(column([texts] if alone else texts, "texts"))
        rows = [self._with_masks(text) for text in texts]
        if not rows:
            return []
        self._build_preprocessor()
        tokenizer = self.preprocessor.tokenizer
        ids, segments = map(as_array, self.preprocessor.packer((rows,)))
        is_mask = ids == tokenizer.mask_token_id
        masks = np.argsort(~is_mask, axis=1, kind="stable").astype("int32")
        features = {
            "token_ids": ids,
            "padding_mask": (ids != tokenizer.pad_token_id).astype("int32"),
            "mask_positions": masks[:, : is_mask.sum(axis=1).max()],
        }
        if self.backbone.num_segments:
            features["segment_ids"] = segments
        check_batches(len(rows))
        logits = keras.Model.predict(self, features, verbose=0)
        guesses = [
            self._best(scores[: row.count(tokenizer.mask_token_id)], top_k)
            for row, scores in zip(rows, logits, strict=True)
        ]
        return guesses[0] if alone else guesses

    def _with_masks(self, text):
        """The ids of a text, including mask tokens."""
        tokenizer = self.preprocessor.tokenizer
        *parts, last = text.split(tokenizer.mask_token)
        if not parts:
            raise ValueError(
                f"Each text must contain {tokenizer.mask_token}. Received: "
                f"{text!r}"
            )
        if isinstance(tokenizer, keras_hub.tokenizers.BytePairTokenizer):
            # A space is part of the token after it, which is hidden.
            parts = [part.removesuffix(" ") for part in parts]
        ids = []
        for part in parts:
            ids += [*map(int, tokenizer(part)), tokenizer.mask_token_id]
        ids += map(int, tokenizer(last))
        longest, count = self.preprocessor.sequence_length, len(ids) + 2
        if count > longest:
            raise ValueError(
                f"A text is longer than sequence_length={longest} of the "
                f"preprocessor. Shorten the text. Received: {count} tokens"
            )
        return ids

    def _best(self, logits, top_k):
        """The most likely tokens of each row of logits `(M, vocabulary)`."""
        tokenizer = self.preprocessor.tokenizer
        tokens = np.setdiff1d(
            np.arange(tokenizer.vocabulary_size()),
            self.preprocessor.special_token_ids,
        )
        logits = np.array(logits, "float64")[:, tokens]
        shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        return [
            [
                (tokenizer.id_to_token(int(tokens[i])), float(row[i]))
                for i in np.argsort(-row)[:top_k]
            ]
            for row in shares
        ]


@multiplications.register(SynthesizerMaskedLM)
def _multiplications(task, length, source_length):
    masks = max(1, round(0.15 * length))
    width, tokens = task.backbone.hidden_dim, task.backbone.vocabulary_size
    return added(
        multiplications(task.backbone, length, source_length),
        {"output layer": masks * width * (width + tokens)},
    )


@plain_layer.register(keras_hub.layers.MaskedLMHead)
def _plain(head, graph):
    """Stock layers: loaded from a file, KerasHub's would share no embedding."""
    parts = {part.name: part for part in sublayers(head, recursive=False)}
    weights = {x.name: ops.convert_to_numpy(x) for x in head.weights}

    def call(x, positions):
        x = ops.matmul(ops.one_hot(positions, x.shape[1]), x)
        x = graph.call(parts["intermediate_dense"], x)
        x = graph.call(parts["intermediate_layer_norm"], x)
        if head.token_embedding is None:
            x = graph.product("bmd,dv->bmv", x, weights["output_kernel"])
        else:
            x = graph.call(head.token_embedding, x, reverse=True)
        x = x + graph.constant(weights["output_bias"][None, None])
        return x if head.activation is None else head.activation(x)

    return call
