"""The softmax, over logits, values and masks."""

from keras_synth.attention.attend import attend

__all__ = ["attend"]
