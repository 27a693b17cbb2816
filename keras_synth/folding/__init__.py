"""`fold`: a model for inference."""

from keras_synth.folding.folding import Folding, fold, folded_config
from keras_synth.folding.synthesizers import folded_synthesizer
from keras_synth.folding.table import TableSynthesizer

__all__ = [
    "Folding",
    "TableSynthesizer",
    "fold",
    "folded_config",
    "folded_synthesizer",
]
