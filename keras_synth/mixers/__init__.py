"""Mixers: layers that can replace attention in a Transformer."""

from keras_synth.mixers import normalizers, patterns
from keras_synth.mixers.compressed import CompressedAttention
from keras_synth.mixers.convolution import (
    DynamicConvolution,
    LightConvolution,
)
from keras_synth.mixers.fourier import FourierMixer
from keras_synth.mixers.linear import LinearAttention
from keras_synth.mixers.linformer import LinformerAttention
from keras_synth.mixers.longformer import LongformerAttention
from keras_synth.mixers.mixer import Mixer
from keras_synth.mixers.mlp import GatedMLP, MLPMixer
from keras_synth.mixers.multi_head import MultiHeadMixer
from keras_synth.mixers.neighbours import PoolingMixer
from keras_synth.mixers.performer import PerformerAttention
from keras_synth.mixers.reformer import ReformerAttention
from keras_synth.mixers.registry import ATTENTION, MIXERS, get, names
from keras_synth.mixers.routing import RoutingAttention
from keras_synth.mixers.self_mixer import SelfMixer
from keras_synth.mixers.short_forms import big_bird, local, strided
from keras_synth.mixers.sinkhorn import SinkhornAttention
from keras_synth.mixers.synthetic_attention import SyntheticAttention
from keras_synth.registry import Entry

_PATTERN = {"pattern": None}  # set by these functions
# One line per name; its options are the arguments of the class.
MIXERS.add(
    ATTENTION,
    Entry("big_bird", big_bird, fixed=_PATTERN),
    Entry("fnet", FourierMixer),
    Entry("light_conv", LightConvolution),
    Entry("dynamic_conv", DynamicConvolution),
    Entry("pooling", PoolingMixer),
    Entry("mlp_mixer", MLPMixer),
    Entry("gmlp", GatedMLP),
    Entry("linear", LinearAttention),
    Entry("compressed", CompressedAttention),
    Entry("linformer", LinformerAttention),
    Entry("performer", PerformerAttention),
    Entry("reformer", ReformerAttention),
    Entry("routing", RoutingAttention),
    Entry("sinkhorn", SinkhornAttention),
    Entry("additive", SyntheticAttention, fixed={"synthesizer": "additive"}),
    Entry(
        "relu",
        SyntheticAttention,
        fixed={"synthesizer": "V", "normalizer": "relu"},
    ),
    Entry("local", local, fixed=_PATTERN),
    Entry("longformer", LongformerAttention),
    Entry("strided", strided, fixed=_PATTERN),
)

__all__ = [
    "CompressedAttention",
    "DynamicConvolution",
    "FourierMixer",
    "GatedMLP",
    "LightConvolution",
    "LinearAttention",
    "LinformerAttention",
    "LongformerAttention",
    "MLPMixer",
    "Mixer",
    "MultiHeadMixer",
    "PerformerAttention",
    "PoolingMixer",
    "ReformerAttention",
    "RoutingAttention",
    "SelfMixer",
    "SinkhornAttention",
    "SyntheticAttention",
    "get",
    "names",
    "normalizers",
    "patterns",
]
