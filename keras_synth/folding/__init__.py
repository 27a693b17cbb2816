"""`fold`: a model for inference."""

from keras_synth.folding.folding import Folding, fold, folded_config
from keras_synth.folding.synthesizers import folded_synthesizer
from keras_synth.folding.table import SumSynthesizer, TableSynthesizer

__all__ = [
    "Folding",
    "SumSynthesizer",
    "TableSynthesizer",
    "fold",
    "folded_config",
    "folded_synthesizer",
]
