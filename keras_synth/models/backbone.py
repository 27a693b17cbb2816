"""`SynthesizerBackbone`: embeddings and a stack of blocks."""

import keras
import keras_hub

from keras_synth.checks import check_positive, check_rate
from keras_synth.layers import SynthesizerDecoder, SynthesizerEncoder
from keras_synth.models.whole_files import WholeFiles
from keras_synth.synthesizers import Synthesizer

POSITIONS = ("learned", "sinusoidal")


@keras.saving.register_keras_serializable(package="keras_synth")
class SynthesizerBackbone(WholeFiles, keras_hub.models.Backbone):
    """A Transformer encoder, or decoder, whose attention is synthesized.

    Token, position and optional segment embeddings, `num_layers` blocks and,
    in pre-norm form, a last normalisation.

    Args:
        vocabulary_size: Integer, number of token ids.
        num_layers: Integer, number of encoder blocks.
        num_heads: Integer, attention heads of each block.
        hidden_dim: Integer, model width `d`, divisible by `num_heads`.
        intermediate_dim: Integer, width of the feed-forward networks.
        synthesizer: Name or config of the synthesizer of every block, such
            as `"R"` or `"random + dot_product"`; or a list of them, one for
            each block.
        dropout: Float, share to drop in training of embeddings, attention
            weights and sub-layer outputs.
        max_sequence_length: Integer, longest input in tokens; also the
            `max_length` of the synthesizers.
        num_segments: Integer, number of segment ids; 0 for no segments.
        activation: Activation of the feed-forward networks.
        layer_norm_epsilon: Float, epsilon of the layer normalisations.
        normalize_first: Whether the blocks are pre-norm, which trains from
            scratch without a warm-up, or post-norm, as BERT.
        causal: Whether no token sees a later one, as a language model needs
            it. The blocks are then `SynthesizerDecoder`s, which have caches.
        positions: `"learned"` or `"sinusoidal"` position embeddings.
        dtype: Dtype or dtype policy of computations and weights.
        **kwargs: Keyword arguments of `keras_hub.models.Backbone`.

    Call arguments:
        inputs: Dictionary of integer tensors `(B, T)`: `"token_ids"`,
            `"padding_mask"` (1 for real tokens) and, with segments,
            `"segment_ids"`.

    Returns:
        Tensor `(B, T, hidden_dim)`.

    Raises:
        ValueError: If an argument is out of range.

    Example:

    >>> backbone = keras_synth.models.SynthesizerBackbone(
    ...     vocabulary_size=1000, num_layers=2, num_heads=4, hidden_dim=64,
    ...     intermediate_dim=128, synthesizer="R+V", max_sequence_length=32)
    >>> ids = np.ones((1, 12), "int32")
    >>> backbone({"token_ids": ids, "padding_mask": ids}).shape
    (1, 12, 64)
    """

    def __init__(
        self,
        vocabulary_size,
        num_layers,
        num_heads,
        hidden_dim,
        intermediate_dim,
        synthesizer,
        dropout=0.1,
        max_sequence_length=512,
        num_segments=0,
        activation="relu",
        layer_norm_epsilon=1e-5,
        normalize_first=True,
        causal=False,
        positions="learned",
        dtype=None,
        **kwargs,
    ):
        check_positive("vocabulary_size", vocabulary_size)
        check_positive("num_layers", num_layers)
        check_positive("max_sequence_length", max_sequence_length)
        check_rate("dropout", dropout)
        if num_segments:
            check_positive("num_segments", num_segments)
        if check_positive("hidden_dim", hidden_dim) % check_positive(
            "num_heads", num_heads
        ):
            raise ValueError(
                "`hidden_dim` must be divisible by `num_heads`. Received: "
                f"hidden_dim={hidden_dim}, num_heads={num_heads}"
            )

        # === Layers ===
        self.token_embedding = keras.layers.ReversibleEmbedding(
            vocabulary_size,
            hidden_dim,
            dtype=dtype,
            name="token_embedding",
        )
        self.position_embedding = _position_embedding(
            positions, max_sequence_length, dtype
        )
        self.segment_embedding = None
        if num_segments:
            self.segment_embedding = keras.layers.Embedding(
                num_segments,
                hidden_dim,
                dtype=dtype,
                name="segment_embedding",
            )
        self.embeddings_dropout = keras.layers.Dropout(
            dropout, dtype=dtype, name="embeddings_dropout"
        )
        make, name = SynthesizerEncoder, "encoder"
        if causal:
            make, name = SynthesizerDecoder, "decoder"
        self.blocks = [
            make(
                intermediate_dim,
                num_heads,
                synthesizer=identifier,
                max_length=max_sequence_length,
                dropout=dropout,
                activation=activation,
                layer_norm_epsilon=layer_norm_epsilon,
                normalize_first=normalize_first,
                dtype=dtype,
                name=f"{name}_layer_{i}",
            )
            for i, identifier in enumerate(_one_each(synthesizer, num_layers))
        ]
        # Post-norm blocks want normalised input, pre-norm ones leave theirs
        # to be normalised.
        self.layer_norm = keras.layers.LayerNormalization(
            epsilon=layer_norm_epsilon, dtype=dtype, name="layer_norm"
        )

        # === Functional model ===
        names = ["token_ids", "padding_mask"]
        names += ["segment_ids"] if num_segments else []
        inputs = {
            name: keras.Input((None,), dtype="int32", name=name)
            for name in names
        }
        self.hidden_dim = hidden_dim
        self.normalize_first = normalize_first
        self.positions = positions
        x = self.embed(inputs["token_ids"], inputs.get("segment_ids"))
        padding = "decoder_padding_mask" if causal else "padding_mask"
        for block in self.blocks:
            x = block(x, **{padding: inputs["padding_mask"]})
        x = self.normalized(x)
        super().__init__(inputs=inputs, outputs=x, dtype=dtype, **kwargs)

        # === Config ===
        self.vocabulary_size = vocabulary_size
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim
        self.synthesizer = _serializable(synthesizer)
        self.dropout = dropout
        self.max_sequence_length = max_sequence_length
        self.num_segments = num_segments
        self.activation = keras.activations.get(activation)
        self.layer_norm_epsilon = layer_norm_epsilon
        self.causal = bool(causal)

    def embed(self, token_ids, segment_ids=None, start=0):
        """Returns what the first block sees.

        Args:
            token_ids: Integer tensor `(B, T)`.
            segment_ids: Integer tensor `(B, T)`, for a backbone with segments.
            start: Integer or scalar integer tensor, position of the first
                token; not 0 when decoding.

        Returns:
            Tensor `(B, T, hidden_dim)`.
        """
        x = self.token_embedding(token_ids)
        if self.positions == "sinusoidal":
            x = x * self.hidden_dim**0.5  # as Vaswani et al., 2017, 3.4
        x = x + self.position_embedding(x, start_index=start)
        if segment_ids is not None:
            x = x + self.segment_embedding(segment_ids)
        x = x if self.normalize_first else self.layer_norm(x)
        return self.embeddings_dropout(x)

    def normalized(self, x):
        """Normalises the last block's output, in pre-norm form."""
        return self.layer_norm(x) if self.normalize_first else x

    # Keras hands `training` only to a `call` that names it.
    def call(self, inputs, training=None, mask=None, **kwargs):
        length = inputs["token_ids"].shape[1]
        if isinstance(length, int) and length > self.max_sequence_length:
            raise ValueError(
                f"Sequences of {length} tokens are longer than "
                f"max_sequence_length={self.max_sequence_length}. Shorten "
                "them, or build the backbone with a larger "
                f"max_sequence_length. Received: length={length}"
            )
        return super().call(inputs, training=training, mask=mask, **kwargs)

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "num_layers": self.num_layers,
            "num_heads": self.num_heads,
            "hidden_dim": self.hidden_dim,
            "intermediate_dim": self.intermediate_dim,
            "synthesizer": self.synthesizer,
            "dropout": self.dropout,
            "max_sequence_length": self.max_sequence_length,
            "num_segments": self.num_segments,
            "activation": keras.activations.serialize(self.activation),
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "normalize_first": self.normalize_first,
            "causal": self.causal,
            "positions": self.positions,
        }


def _position_embedding(positions, max_length, dtype):
    """A layer with the call of `keras_hub.layers.PositionEmbedding`."""
    if positions == "learned":
        return keras_hub.layers.PositionEmbedding(
            max_length,
            initializer="uniform",  # as that of `Embedding`
            dtype=dtype,
            name="position_embedding",
        )
    if positions == "sinusoidal":
        return keras_hub.layers.SinePositionEncoding(
            dtype=dtype, name="position_embedding"
        )
    raise ValueError(
        f"`positions` must be one of {POSITIONS}. "
        f"Received: positions={positions!r}"
    )


def _one_each(synthesizer, num_layers):
    """One identifier for each block; blocks never share a synthesizer."""
    if isinstance(synthesizer, (list, tuple)):
        if len(synthesizer) != num_layers:
            raise ValueError(
                "A list of synthesizers must name one for each layer. "
                f"Received: {len(synthesizer)} of them, num_layers={num_layers}"
            )
        return list(synthesizer)
    if isinstance(synthesizer, Synthesizer):
        synthesizer = _serializable(synthesizer)
    return [synthesizer] * num_layers


def _serializable(synthesizer):
    if isinstance(synthesizer, (list, tuple)):
        return [_serializable(one) for one in synthesizer]
    if isinstance(synthesizer, Synthesizer):
        return keras.saving.serialize_keras_object(synthesizer)
    return synthesizer
