"""Scores of tokens, texts, classes and entities."""

from keras_synth.training.metrics import (
    TokenAccuracy,
    TokenCrossentropy,
    accuracy,
    bleu,
    chrf,
    entity_f1,
    f1,
    matthews,
    pearson,
    rouge_l,
    spearman,
    token_scorer,
)

__all__ = [
    "TokenAccuracy",
    "TokenCrossentropy",
    "accuracy",
    "bleu",
    "chrf",
    "entity_f1",
    "f1",
    "matthews",
    "pearson",
    "rouge_l",
    "spearman",
    "token_scorer",
]
