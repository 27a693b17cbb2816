"""Attention logits, and weights that are known already."""

from keras_synth.attention.logits import Logits, Weights

__all__ = ["Logits", "Weights"]
