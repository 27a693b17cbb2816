"""Kinds of tasks: what each has of its own. The rest is common to all."""

from keras_synth.compare.kinds.classification import Classification
from keras_synth.compare.kinds.kind import Kind, Prepared, Score
from keras_synth.compare.kinds.language_model import BYTES, WORDS, LanguageModel
from keras_synth.compare.kinds.metrics import BLEU, ROUGE_L
from keras_synth.compare.kinds.translation import Translation

__all__ = [
    "BLEU",
    "BYTES",
    "ROUGE_L",
    "WORDS",
    "Classification",
    "Kind",
    "LanguageModel",
    "Prepared",
    "Score",
    "Translation",
]
