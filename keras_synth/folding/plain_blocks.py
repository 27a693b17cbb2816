"""Plain forms of Transformer blocks."""

from keras_synth._backend.internals import keras_mask
from keras_synth.folding.plain import plain_layer
from keras_synth.layers import SynthesizerDecoder, SynthesizerEncoder
from keras_synth.layers.feed_forward import FeedForward
from keras_synth.layers.residual import Residual

_MODES = ("use_causal_mask", "return_attention_scores")


@plain_layer.register(SynthesizerEncoder)
@plain_layer.register(SynthesizerDecoder)
def _block(block, graph):
    """Attention, cross-attention if there is a second sequence, and MLP."""
    is_decoder = isinstance(block, SynthesizerDecoder)
    own, other = ("decoder_", "encoder_") if is_decoder else ("", None)

    def attended(attention, residual, x, sources, prefix, options):
        padding = options.pop(f"{prefix}padding_mask", None)
        if padding is None:
            padding = keras_mask((x, *sources)[-1])
        pairs = ("attention_mask", "attention_bias")
        pairs = {k: options.pop(prefix + k, None) for k in pairs}
        y = graph.call(residual.norm, x) if residual.normalize_first else x
        masks = {"query_mask": keras_mask(x), "value_mask": padding, **pairs}
        if not sources:
            masks |= {k: options.pop(k) for k in _MODES if k in options}
        return graph.call(
            residual, x, graph.call(attention, y, *sources, **masks)
        )

    def call(x, *sources, training=None, **options):
        if is_decoder:
            options = {"use_causal_mask": True, **options}
        x = attended(
            block.attention, block.attention_residual, x, (), own, options
        )
        source = options.pop("encoder_sequence", None)
        sources = sources or ((source,) if source is not None else ())
        if sources:
            x = attended(
                block.cross_attention,
                block.cross_residual,
                x,
                sources,
                other,
                options,
            )
        if any(value is not None for value in options.values()):
            raise ValueError(
                "A plain block takes whole sequences and their masks. "
                f"Received: {sorted(options)} at {block.path}"
            )
        return _fed(graph, block, x)

    return call


def _fed(graph, block, x):
    """`x` after the feed-forward network."""
    residual = block.feed_forward_residual
    y = graph.call(residual.norm, x) if residual.normalize_first else x
    return graph.call(residual, x, graph.call(block.feed_forward, y))


@plain_layer.register(Residual)
def _residual(residual, graph):
    def call(x, y, training=None):
        x = x + y
        return x if residual.normalize_first else graph.call(residual.norm, x)

    return call


@plain_layer.register(FeedForward)
def _feed_forward(layer, graph):
    def call(x, training=None):
        hidden = graph.call(layer.intermediate, x)
        if layer.gate is not None:
            hidden = hidden * graph.call(layer.gate, x)
        return graph.call(layer.output_dense, hidden)

    return call
