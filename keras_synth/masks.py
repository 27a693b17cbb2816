"""Which tokens attend to which."""

from keras_synth.attention.masks import AttentionMask

__all__ = ["AttentionMask"]
