"""Plain forms of Transformer blocks and dense layers."""

import inspect

from keras import ops

from keras_synth._backend.internals import keras_mask
from keras_synth._backend.keras_layers import EinsumDense
from keras_synth.attention.projections import FixedEinsumDense
from keras_synth.folding.plain import plain_layer
from keras_synth.layers import SynthesizerDecoder, SynthesizerEncoder
from keras_synth.layers.feed_forward import FeedForward
from keras_synth.layers.residual import Residual


@plain_layer.register(SynthesizerEncoder)
@plain_layer.register(SynthesizerDecoder)
def _block(block, graph):
    """Attention, MLP, and cross-attention to an optional second sequence."""
    is_decoder = isinstance(block, SynthesizerDecoder)
    signature = inspect.signature(type(block).call)

    def residual(layer, x, *sources, of=None, **options):
        """`x` after a layer, and the residual connection around it."""
        y = graph.call(of.norm, x) if of.normalize_first else x
        y = graph.call(layer, y, *sources, **options)
        return graph.call(of, x, y)

    def attended(attention, of, x, *sources, given, prefix, **options):
        padding = given.pop(f"{prefix}padding_mask", None)
        if padding is None:
            padding = keras_mask((x, *sources)[-1])
        for name in ("attention_mask", "attention_bias"):
            options[name] = given.pop(f"{prefix}{name}", None)
        masks = {"query_mask": keras_mask(x), "value_mask": padding}
        return residual(attention, x, *sources, of=of, **masks, **options)

    def call(*args, **kwargs):
        given = signature.bind(block, *args, **kwargs).arguments
        _, x = (given.pop(name) for name in [*given][:2])
        source = given.pop("encoder_sequence", None)
        x = attended(
            block.attention,
            block.attention_residual,
            x,
            given=given,
            prefix="decoder_" if is_decoder else "",
            use_causal_mask=given.pop("use_causal_mask", is_decoder),
        )
        if source is not None:
            x = attended(
                block.cross_attention,
                block.cross_residual,
                x,
                source,
                given=given,
                prefix="encoder_",
            )
        given.pop("training", None)
        if any(x is not None and x is not False for x in given.values()):
            raise ValueError(
                "A plain block supports only whole sequences and their masks, "
                f"and returns no scores. Received: {[*given]} at {block.path}"
            )
        return residual(block.feed_forward, x, of=block.feed_forward_residual)

    return call


@plain_layer.register(Residual)
def _residual(residual, graph):
    def call(x, y):
        x = x + y
        return x if residual.normalize_first else graph.call(residual.norm, x)

    return call


@plain_layer.register(EinsumDense)
@plain_layer.register(FixedEinsumDense)
def _dense(layer, graph):
    axes, bias = layer.equation.split("->")[1], None
    if layer.bias is not None:
        sizes = iter(layer.bias.shape[-len(layer.bias_axes) :])
        shape = [next(sizes) if x in layer.bias_axes else 1 for x in axes]
        bias = ops.convert_to_numpy(layer.bias).reshape(shape)
    return lambda x: graph.product(
        layer.equation, x, layer.kernel, bias, like=layer
    )


@plain_layer.register(FeedForward)
def _feed_forward(layer, graph):
    def call(x, training=None):
        hidden = graph.call(layer.intermediate, x)
        if layer.gate is not None:
            hidden = hidden * graph.call(layer.gate, x)
        return graph.call(layer.output_dense, hidden)

    return call
