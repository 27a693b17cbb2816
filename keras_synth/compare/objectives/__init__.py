"""Objectives: what each kind of model has of its own. The rest is common."""

from keras_synth.compare.objectives.classification import Classification
from keras_synth.compare.objectives.language_model import LanguageModel
from keras_synth.compare.objectives.objective import Objective, Prepared, Score
from keras_synth.compare.objectives.translation import Translation

__all__ = [
    "OBJECTIVES",
    "Classification",
    "LanguageModel",
    "Objective",
    "Prepared",
    "Score",
    "Translation",
]

OBJECTIVES = (Classification, Translation, LanguageModel)
