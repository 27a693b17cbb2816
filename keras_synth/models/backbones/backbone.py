"""`SynthesizerBackbone`: embeddings and a stack of blocks."""

from typing import Any

import keras

from keras_synth._backend.configs import arguments_of, config_of
from keras_synth.analysis import multiplications
from keras_synth.analysis.counts import of_layers
from keras_synth.folding import folded_config
from keras_synth.models.backbones.embeddings import token_embedding
from keras_synth.models.backbones.stack import Stack
from keras_synth.models.backbones.stacked import StackedBackbone, check_sizes
from keras_synth.types import Identifier


@keras.saving.register_keras_serializable(package="keras_synth")
class SynthesizerBackbone(StackedBackbone):
    """A Transformer encoder or decoder with synthesized attention.

    It consists of token, position and optional segment embeddings, `num_layers`
    blocks and, in pre-norm form, a last normalisation.

    Args:
        vocabulary_size: Integer, number of token ids.
        num_layers: Integer, number of encoder blocks.
        num_heads: Integer, attention heads of each block.
        hidden_dim: Integer, model width `d`, divisible by `num_heads` unless
            `key_dim` is set.
        intermediate_dim: Integer, width of the feed-forward networks.
        synthesizer: Synthesizer or mixer of every block: a name such as `"R"`,
            `"random + dot_product"` or `"fnet"`, an object without weights, or
            a config; see `keras_synth.mixers.get`. Or a list of them, one for
            each block. An integer in the list shares an earlier block's
            synthesizer: `["R", 0, "V", 2]` has one table, and one pair of
            projections of queries and keys.
        dropout: Float, fraction of embeddings, attention weights and sub-layer
            outputs to drop in training.
        max_sequence_length: Integer, longest input in tokens; also the
            `max_length` of the synthesizers.
        num_segments: Integer, number of segment ids; 0 for no segments.
        activation: Activation of the feed-forward networks.
        layer_norm_epsilon: Float, epsilon of the normalisations.
        normalize_first: Whether the blocks are pre-norm, which trains from
            scratch without a warm-up, or post-norm, as in BERT.
        causal: Whether token i attends only to tokens `j <= i`, as in language
            models. The blocks are then `SynthesizerDecoder`s, with caches.
        positions: `"learned"` or `"sinusoidal"` position embeddings;
            `"t5_relative"` for T5's table of distances, one for each stack,
            added to the logits of all blocks; or `None`, if attention depends
            on positions, as R and D do.
        attention_use_bias: Whether the projections of attention have biases.
        key_dim: Integer, features per head, by default
            `hidden_dim // num_heads`.
        normalization: `"layer_normalization"` or `"rms_normalization"`.
        feed_forward_use_bias: Whether the feed-forward networks have biases.
        use_gated_activation: Whether their hidden layers have gates; see
            `keras_synth.layers.FeedForward`.
        feed_forward_dropout: Float, fraction of these hidden layers to drop in
            training, as in T5, in addition to `dropout`.
        scale_output: Whether the output layer of language models, which is the
            token embedding, divides by `sqrt(hidden_dim)`, as in T5.
        dtype: Dtype or dtype policy of computations and weights.
        **kwargs: Keyword arguments of `keras_hub.models.Backbone`.

    Call arguments:
        inputs: Dictionary of integer tensors `(B, T)`: `"token_ids"`,
            `"padding_mask"` (1 for real tokens) and, with segments,
            `"segment_ids"`.
        attention_bias: Float tensor that broadcasts to `(B, H, T, T)`, added
            to the attention logits of every block.

    Returns:
        Tensor `(B, T, hidden_dim)`.

    Raises:
        ValueError: If an argument is out of range.

    Example:

    >>> backbone = keras_synth.models.SynthesizerBackbone(
    ...     vocabulary_size=100, num_layers=1, num_heads=2, hidden_dim=16,
    ...     intermediate_dim=32, synthesizer="R", max_sequence_length=16)
    >>> ids = np.ones((1, 12), "int32")
    >>> backbone({"token_ids": ids, "padding_mask": ids}).shape
    (1, 12, 16)
    """

    def __init__(
        self,
        vocabulary_size: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        intermediate_dim: int,
        synthesizer: Identifier,
        dropout: float = 0.1,
        max_sequence_length: int = 512,
        num_segments: int = 0,
        activation: Identifier = "relu",
        layer_norm_epsilon: float = 1e-5,
        normalize_first: bool = True,
        causal: bool = False,
        positions: str | None = "learned",
        attention_use_bias: bool = True,
        key_dim: int | None = None,
        normalization: str = "layer_normalization",
        feed_forward_use_bias: bool = True,
        use_gated_activation: bool = False,
        feed_forward_dropout: float = 0.0,
        scale_output: bool = False,
        dtype: Identifier | None = None,
        **kwargs: Any,
    ) -> None:
        arguments = arguments_of(SynthesizerBackbone, locals())
        options = check_sizes(arguments)

        # === Layers ===
        self.token_embedding = token_embedding(arguments)
        self.stack = Stack(
            self.token_embedding,
            synthesizer,
            options,
            num_layers=num_layers,
            max_length=max_sequence_length,
            positions=positions,
            num_segments=num_segments,
            decoder=causal,
        )

        # === Functional model ===
        names = ["token_ids", "padding_mask"]
        names += ["segment_ids"] if num_segments else []
        inputs = {
            name: keras.Input((None,), dtype="int32", name=name)
            for name in names
        }
        outputs = self.stack(**inputs)
        super().__init__(inputs=inputs, outputs=outputs, dtype=dtype, **kwargs)

        # === Config ===
        self._keep({**arguments, "causal": bool(causal)})

    # Keras passes `training` only to a `call` that names it.
    def call(
        self, inputs, training=None, mask=None, attention_bias=None, **kwargs
    ):
        self.check_lengths(inputs)
        if attention_bias is not None:  # not an input of the functional model
            return self.stack(
                **{name: inputs[name] for name in self.input},
                attention_bias=attention_bias,
            )
        return super().call(inputs, training=training, mask=mask, **kwargs)

    def get_config(self) -> dict[str, Any]:
        return config_of(self, SynthesizerBackbone, super().get_config())


@multiplications.register(SynthesizerBackbone)
def _multiplications(backbone, length, source_length):
    return of_layers(backbone.stack.blocks, length, length)


@folded_config.register(SynthesizerBackbone)
def _folded_config(backbone, folding):
    folding = folding.up_to(backbone.max_sequence_length)
    templates = backbone.stack.folded_templates(folding)
    return {
        **backbone.get_config(),
        "max_sequence_length": folding.max_length,
        "synthesizer": templates["synthesizer"],
    }
