"""Mixers: layers that stand where attention stands in a Transformer."""

from keras_synth.mixers.additive import AdditiveAttention
from keras_synth.mixers.fourier import FourierMixer
from keras_synth.mixers.linear import LinearAttention
from keras_synth.mixers.linformer import LinformerAttention
from keras_synth.mixers.mixer import Mixer, SelfMixer
from keras_synth.mixers.multi_head import MultiHeadMixer
from keras_synth.mixers.names import get
from keras_synth.mixers.performer import PerformerAttention
from keras_synth.mixers.relu import ReLUAttention
from keras_synth.mixers.synthetic_attention import SyntheticAttention

__all__ = [
    "AdditiveAttention",
    "FourierMixer",
    "LinearAttention",
    "LinformerAttention",
    "Mixer",
    "MultiHeadMixer",
    "PerformerAttention",
    "ReLUAttention",
    "SelfMixer",
    "SyntheticAttention",
    "get",
]
