"""The objectives: what each has of its own. The rest is common to all."""

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

# By the score on the test, as tasks.toml names them.
OBJECTIVES = {
    "accuracy": Classification("accuracy"),
    "matthews": Classification("matthews"),
    "f1": Classification("f1"),
    "pearson": Classification("pearson"),
    "bleu": Translation("bleu"),
    "rouge_l": Translation("rouge_l"),
    "words": LanguageModel("words"),
    "bytes": LanguageModel("bytes"),
}
