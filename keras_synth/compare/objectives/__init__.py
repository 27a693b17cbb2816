"""The objectives: what each has of its own. The rest is common to all."""

from keras_synth.compare.objectives.classification import (
    ByteClassification,
    Classification,
    WordClassification,
)
from keras_synth.compare.objectives.language_model import (
    ByteLanguageModel,
    SubwordLanguageModel,
    WordLanguageModel,
)
from keras_synth.compare.objectives.objective import Objective, Prepared, Score
from keras_synth.compare.objectives.pretraining import (
    MaskedBytes,
    MaskedLanguageModel,
    MaskedWords,
    SpanCorruption,
)
from keras_synth.compare.objectives.tagging import Tagging
from keras_synth.compare.objectives.translation import Translation

__all__ = [
    "OBJECTIVES",
    "ByteClassification",
    "ByteLanguageModel",
    "Classification",
    "MaskedBytes",
    "MaskedLanguageModel",
    "MaskedWords",
    "Objective",
    "Prepared",
    "Score",
    "SpanCorruption",
    "SubwordLanguageModel",
    "Tagging",
    "Translation",
    "WordClassification",
    "WordLanguageModel",
]

# By the score on the test, or what is learned, as tasks.toml names them.
OBJECTIVES = {
    "accuracy": Classification("accuracy"),
    "accuracy_of_words": WordClassification("accuracy"),
    "accuracy_of_bytes": ByteClassification("accuracy"),
    "matthews": Classification("matthews"),
    "f1": Classification("f1"),
    "pearson": Classification("pearson"),
    "bleu": Translation("bleu"),
    "rouge_l": Translation("rouge_l"),
    "words": WordLanguageModel(),
    "bytes": ByteLanguageModel(),
    "subwords": SubwordLanguageModel(),
    "word_accuracy": Tagging(),
    "masked_tokens": MaskedLanguageModel(),
    "masked_words": MaskedWords(),
    "masked_bytes": MaskedBytes(),
    "span_corruption": SpanCorruption(),
}
