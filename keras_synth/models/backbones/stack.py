"""`Stack`: the embeddings and blocks of a backbone."""

import dataclasses

import keras

from keras_synth._backend.checks import check_positive, check_rate
from keras_synth.folding import folded_config
from keras_synth.layers import SynthesizerDecoder, SynthesizerEncoder
from keras_synth.layers.residual import normalization_class
from keras_synth.layers.templates import as_config, template
from keras_synth.mixers import SyntheticAttention, registry
from keras_synth.models.backbones.embeddings import Embedding, make_positions

# The attribute of a block for each argument.
_PLACES = {"synthesizer": "attention", "cross_synthesizer": "cross_attention"}


class Stack:
    """Embeddings, blocks and, if pre-norm, a last normalisation.

    It is not a layer: its layers are part of the functional model. Arguments
    are those of `SynthesizerBackbone`, except:

    Args:
        token_embedding: `ReversibleEmbedding`, which stacks can share.
        options: Namespace from `block_options`, for all blocks.
        decoder: Whether the blocks are `SynthesizerDecoder`s.
        prefix: String, start of the layers' names, except those of blocks.
        **cross: Other options of the decoders' cross-attention.
    """

    def __init__(
        self,
        token_embedding,
        synthesizer,
        options,
        *,
        num_layers,
        max_length,
        positions,
        num_segments=0,
        decoder=False,
        cross_synthesizer="dot_product",
        prefix="",
        **cross,
    ):
        check_positive("num_layers", num_layers)
        check_rate("dropout", options.dropout)
        num_heads, dtype = options.num_heads, options.dtype
        self.token_embedding = token_embedding
        self.scales = positions == "sinusoidal"
        self.normalize_first = options.normalize_first
        self.decoder = decoder
        self.position_embedding, self.position_bias = make_positions(
            positions, max_length, num_heads, not decoder, prefix, dtype
        )
        self.segment_embedding = None
        if num_segments:
            self.segment_embedding = Embedding(
                check_positive("num_segments", num_segments),
                token_embedding.output_dim,
                dtype=dtype,
                name=f"{prefix}segment_embedding",
            )
        self.dropout = keras.layers.Dropout(
            options.dropout, dtype=dtype, name=f"{prefix}embeddings_dropout"
        )
        own, self._owners = {"synthesizer": synthesizer}, {}
        if decoder:
            own["cross_synthesizer"] = cross_synthesizer
        for name, given in own.items():
            own[name], self._owners[name] = _one_each(given, num_layers)
        if self.position_bias is not None:
            for one in own["synthesizer"]:
                template(
                    one, num_heads, max_length, ("supports_attention_bias",)
                )
        cls, side = SynthesizerEncoder, "encoder"
        if decoder:
            cls, side = SynthesizerDecoder, "decoder"
        self.blocks = [
            cls(
                name=f"{side}_layer_{i}",
                max_length=max_length,
                **vars(options),
                **{name: each[i] for name, each in own.items()},
                **cross,
            )
            for i in range(num_layers)
        ]
        for name, owners in self._owners.items():
            for index, owner in owners.items():
                self.blocks[index].share_synthesizer(
                    _PLACES[name], self.blocks[owner]
                )
        # Before post-norm blocks, after pre-norm blocks.
        self.layer_norm = normalization_class(options.normalization)(
            epsilon=options.layer_norm_epsilon,
            dtype=dtype,
            name=f"{prefix}layer_norm",
        )

    def __call__(
        self,
        token_ids,
        padding_mask,
        segment_ids=None,
        encoded=None,
        encoder_padding_mask=None,
        attention_bias=None,
        cross_attention_bias=None,
    ):
        """Returns hidden states `(B, T, d)` of whole sequences.

        `encoded`, `(B, S, d)`, is the source of cross-attention. The other
        arguments are those of the backbones.
        """
        x = self.embed(token_ids, segment_ids)
        if self.position_bias is not None:
            bias = self.position_bias(x)
            attention_bias = (
                bias if attention_bias is None else bias + attention_bias
            )
        prefix = "decoder_" if self.decoder else ""
        given = {
            f"{prefix}padding_mask": padding_mask,
            f"{prefix}attention_bias": attention_bias,
        }
        if encoded is not None:
            given |= {
                "encoder_sequence": encoded,
                "encoder_padding_mask": encoder_padding_mask,
                "encoder_attention_bias": cross_attention_bias,
            }
        for block in self.blocks:
            x = block(x, **given)
        return self._normalized(x)

    def embed(self, token_ids, segment_ids=None, start=0):
        """Returns the input of the first block, `(B, T, d)`.

        `start`, an integer or a scalar integer tensor, is the position of the
        first token, not 0 when decoding.
        """
        x = self.token_embedding(token_ids)
        if self.scales:  # Vaswani et al., 2017, 3.4
            x = x * self.token_embedding.output_dim**0.5
        if self.position_embedding is not None:
            x = x + self.position_embedding(x, start_index=start)
        if segment_ids is not None:
            x = x + self.segment_embedding(segment_ids)
        x = x if self.normalize_first else self.layer_norm(x)
        return self.dropout(x)

    def call_with_caches(
        self,
        token_ids,
        caches,
        start,
        sources=(),
        encoder_padding_mask=None,
        padding_mask=None,
    ):
        """Calls the blocks on tokens `(B, T)` that follow those in the caches.

        `caches` are from `make_caches`, and `sources` are those of
        cross-attention, one for each block. Returns a tensor `(B, T, d)`, and
        the caches with these tokens.
        """
        x = self.embed(token_ids, start=start)
        filled, bias = [], None
        if self.position_bias is not None:
            length = keras.tree.flatten(caches[0])[0].shape[1]
            bias = self.position_bias(x, start=start, length=length)
        for i, block in enumerate(self.blocks):
            x, cache, *_ = block(
                x,
                self_attention_cache=caches[i],
                self_attention_cache_update_index=start,
                cross_attention_cache=sources[i] if sources else None,
                decoder_padding_mask=padding_mask,
                encoder_padding_mask=encoder_padding_mask,
                decoder_attention_bias=bias,
            )
            filled.append(cache)
        return self._normalized(x), tuple(filled)

    def folded_templates(self, folding):
        """Returns lists of folded synthesizers, by the blocks' arguments."""
        if self.position_bias is not None:
            folding = dataclasses.replace(folding, softmax=False)
        configs = [folded_config(block, folding) for block in self.blocks]
        return {
            name: [
                owners.get(index, config[name])
                for index, config in enumerate(configs)
            ]
            for name, owners in self._owners.items()
        }

    def make_caches(self, batch_size, length):
        """Returns empty caches for `length` tokens, one for each block."""
        return tuple(
            block.make_caches(batch_size, length, 0)[0] for block in self.blocks
        )

    def _normalized(self, x):
        return self.layer_norm(x) if self.normalize_first else x


def _one_each(synthesizer, num_layers):
    """One identifier for each block, and the owners of shared ones by index."""
    if not isinstance(synthesizer, (list, tuple)):
        return [synthesizer] * num_layers, {}
    if len(synthesizer) != num_layers:
        raise ValueError(
            "A list of synthesizers must have one for each layer. Received: "
            f"{len(synthesizer)} of them, num_layers={num_layers}"
        )
    each, owners = [*synthesizer], {}
    for index, one in enumerate(synthesizer):
        if not isinstance(one, int):
            continue
        if isinstance(one, bool) or not 0 <= one < index:
            raise ValueError(
                "An integer in a list of synthesizers must be the index, from "
                "0, of an earlier layer whose synthesizer is shared. Received: "
                f"{one!r} for layer {index}"
            )
        owners[index] = owner = owners.get(one, one)
        each[index] = each[owner]
        mixer = registry.mixer_class(as_config(each[owner]))
        if mixer is not SyntheticAttention:
            raise ValueError(
                f"Only synthesizers can be shared, and a {mixer.__name__} does "
                f"not have one. Received: {one!r} for layer {index}, and "
                f"{each[owner]!r} for layer {owner}"
            )
    return each, owners
