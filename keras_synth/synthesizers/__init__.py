"""Synthesizers: functions from tokens, or from nothing, to attention logits."""

from keras_synth.synthesizers.additive import AdditiveSynthesizer
from keras_synth.synthesizers.dense import DenseSynthesizer
from keras_synth.synthesizers.dot_product import DotProductSynthesizer
from keras_synth.synthesizers.factorized_dense import (
    FactorizedDenseSynthesizer,
)
from keras_synth.synthesizers.hand_made import (
    GaussianSynthesizer,
    PatternSynthesizer,
)
from keras_synth.synthesizers.heads import HeadGroupsSynthesizer
from keras_synth.synthesizers.local_dense import LocalDenseSynthesizer
from keras_synth.synthesizers.mixture import MixtureSynthesizer, SumSynthesizer
from keras_synth.synthesizers.names import get
from keras_synth.synthesizers.random import (
    FactorizedRandomSynthesizer,
    RandomSynthesizer,
)
from keras_synth.synthesizers.relative import (
    AlibiSynthesizer,
    RelativeSynthesizer,
    T5RelativeSynthesizer,
)
from keras_synth.synthesizers.synthesizer import Synthesizer
from keras_synth.synthesizers.table import TableSynthesizer

__all__ = [
    "AdditiveSynthesizer",
    "AlibiSynthesizer",
    "DenseSynthesizer",
    "DotProductSynthesizer",
    "FactorizedDenseSynthesizer",
    "FactorizedRandomSynthesizer",
    "GaussianSynthesizer",
    "HeadGroupsSynthesizer",
    "LocalDenseSynthesizer",
    "MixtureSynthesizer",
    "PatternSynthesizer",
    "RandomSynthesizer",
    "RelativeSynthesizer",
    "SumSynthesizer",
    "Synthesizer",
    "T5RelativeSynthesizer",
    "TableSynthesizer",
    "get",
]
