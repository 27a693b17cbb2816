"""Layers around synthesizers and other mixers."""

from keras_synth.layers.decoder_block import SynthesizerDecoder
from keras_synth.layers.encoder_block import SynthesizerEncoder
from keras_synth.layers.feed_forward import FeedForward
from keras_synth.layers.residual import Residual
from keras_synth.mixers import SyntheticAttention

__all__ = [
    "FeedForward",
    "Residual",
    "SynthesizerDecoder",
    "SynthesizerEncoder",
    "SyntheticAttention",
]
