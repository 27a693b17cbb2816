"""Synthesizers: functions from tokens, or from nothing, to attention logits."""

from keras_synth.synthesizers.dense import (
    DenseSynthesizer,
    FactorizedDenseSynthesizer,
)
from keras_synth.synthesizers.dot_product import DotProductSynthesizer
from keras_synth.synthesizers.mixture import MixtureSynthesizer
from keras_synth.synthesizers.names import get
from keras_synth.synthesizers.random import (
    FactorizedRandomSynthesizer,
    RandomSynthesizer,
)
from keras_synth.synthesizers.synthesizer import Synthesizer

__all__ = [
    "DenseSynthesizer",
    "DotProductSynthesizer",
    "FactorizedDenseSynthesizer",
    "FactorizedRandomSynthesizer",
    "MixtureSynthesizer",
    "RandomSynthesizer",
    "Synthesizer",
    "get",
]
