"""The README of a preset."""

from keras_synth.training.model_card import save_with_card, write_model_card

__all__ = ["save_with_card", "write_model_card"]
