"""Mixers: layers that stand where attention stands in a Transformer."""

from keras_synth.mixers import patterns
from keras_synth.mixers.big_bird import BigBirdAttention
from keras_synth.mixers.fourier import FourierMixer
from keras_synth.mixers.local import LocalAttention
from keras_synth.mixers.longformer import LongformerAttention
from keras_synth.mixers.mixer import Mixer, SelfMixer
from keras_synth.mixers.multi_head import MultiHeadMixer
from keras_synth.mixers.names import get
from keras_synth.mixers.sparse import SparseAttention, StridedAttention
from keras_synth.mixers.synthetic_attention import SyntheticAttention

__all__ = [
    "BigBirdAttention",
    "FourierMixer",
    "LocalAttention",
    "LongformerAttention",
    "Mixer",
    "MultiHeadMixer",
    "SelfMixer",
    "SparseAttention",
    "StridedAttention",
    "SyntheticAttention",
    "get",
    "patterns",
]
