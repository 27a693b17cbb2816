"""`fold`: a model for inference."""

from keras_synth.folding import plain_blocks, plain_mixers  # noqa: F401
from keras_synth.folding.folding import Folding, fold, folded_config
from keras_synth.folding.plain import Graph, plain_layer
from keras_synth.folding.synthesizers import folded_synthesizer
from keras_synth.folding.table import TableSynthesizer

__all__ = [
    "Folding",
    "Graph",
    "TableSynthesizer",
    "fold",
    "folded_config",
    "folded_synthesizer",
    "plain_layer",
]
