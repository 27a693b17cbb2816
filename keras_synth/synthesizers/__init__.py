"""Synthesizers: functions from tokens, or from nothing, to attention logits."""

from keras_synth.registry import Entry
from keras_synth.synthesizers.additive import AdditiveSynthesizer
from keras_synth.synthesizers.composite import HeadGroupsSynthesizer
from keras_synth.synthesizers.dense import DenseSynthesizer
from keras_synth.synthesizers.dot_product import DotProductSynthesizer
from keras_synth.synthesizers.factorized_dense import (
    FactorizedDenseSynthesizer,
)
from keras_synth.synthesizers.hand_made import (
    GaussianSynthesizer,
    PatternSynthesizer,
)
from keras_synth.synthesizers.local_dense import LocalDenseSynthesizer
from keras_synth.synthesizers.mixture import MixtureSynthesizer
from keras_synth.synthesizers.random import (
    FactorizedRandomSynthesizer,
    RandomSynthesizer,
)
from keras_synth.synthesizers.registry import SYNTHESIZERS, get, names
from keras_synth.synthesizers.relative import (
    AlibiSynthesizer,
    RelativeSynthesizer,
    T5RelativeSynthesizer,
)
from keras_synth.synthesizers.synthesizer import Synthesizer

# One line per name; its options are the arguments of the class.
SYNTHESIZERS.add(
    Entry("dot_product", DotProductSynthesizer, "V"),
    Entry("dense", DenseSynthesizer, "D"),
    Entry("random", RandomSynthesizer, "R"),
    Entry("fixed_random", RandomSynthesizer, "Fix", {"fixed": True}),
    Entry("factorized_dense", FactorizedDenseSynthesizer, "FD"),
    Entry("factorized_random", FactorizedRandomSynthesizer, "FR"),
    Entry("local_dense", LocalDenseSynthesizer),
    Entry("relative", RelativeSynthesizer),
    Entry("alibi", AlibiSynthesizer),
    Entry("t5_relative", T5RelativeSynthesizer),
    Entry("gaussian", GaussianSynthesizer),
    Entry("pattern", PatternSynthesizer),
    Entry("additive", AdditiveSynthesizer),
    Entry("mixture", MixtureSynthesizer),
    Entry("heads", HeadGroupsSynthesizer),
)

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
    "Synthesizer",
    "T5RelativeSynthesizer",
    "get",
    "names",
]
