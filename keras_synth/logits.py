"""Attention logits, and weights without logits."""

from keras_synth.attention.logits import Logits, Weights

__all__ = ["Logits", "Weights"]
