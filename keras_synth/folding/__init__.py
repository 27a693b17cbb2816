"""`fold`: a model for inference."""

from keras_synth.folding.folding import fold

__all__ = ["fold"]
