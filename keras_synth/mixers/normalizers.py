"""What makes attention weights of logits."""

from keras_synth.attention.normalizers import (
    Normalizer,
    ReLU,
    Sigmoid,
    Softmax,
    Softmax1,
    get,
)

__all__ = [
    "Normalizer",
    "ReLU",
    "Sigmoid",
    "Softmax",
    "Softmax1",
    "get",
]
