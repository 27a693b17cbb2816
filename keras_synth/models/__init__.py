"""KerasHub models of the layers. Needs the extra `nlp` (keras-nlp)."""

try:
    import grain  # noqa: F401
    import keras_hub  # noqa: F401
except ModuleNotFoundError as error:
    if error.name not in ("grain", "keras_hub"):
        raise
    raise ImportError(
        "keras_synth.models needs keras-nlp and grain: "
        'pip install "keras-synth[nlp]"'
    ) from None

from keras_synth.models.backbones.backbone import SynthesizerBackbone
from keras_synth.models.backbones.configurations import config
from keras_synth.models.backbones.seq2seq_backbone import (
    SynthesizerSeq2SeqBackbone,
)
from keras_synth.models.backbones.transfer import copy_weights
from keras_synth.models.preprocessors.causal_lm_preprocessor import (
    SynthesizerCausalLMPreprocessor,
)
from keras_synth.models.preprocessors.masked_lm_preprocessor import (
    SynthesizerMaskedLMPreprocessor,
)
from keras_synth.models.preprocessors.seq2seq_lm_preprocessor import (
    SynthesizerSeq2SeqLMPreprocessor,
)
from keras_synth.models.preprocessors.text_classifier_preprocessor import (
    SynthesizerTextClassifierPreprocessor,
)
from keras_synth.models.preprocessors.token_classifier_preprocessor import (
    SynthesizerTokenClassifierPreprocessor,
)
from keras_synth.models.preprocessors.tokenizer import (
    SynthesizerBytePairTokenizer,
    SynthesizerByteTokenizer,
    SynthesizerTokenizer,
    SynthesizerWordTokenizer,
)
from keras_synth.models.saving import layouts  # noqa: F401
from keras_synth.models.tasks import folding  # noqa: F401
from keras_synth.models.tasks.causal_lm import SynthesizerCausalLM
from keras_synth.models.tasks.masked_lm import SynthesizerMaskedLM
from keras_synth.models.tasks.seq2seq_lm import SynthesizerSeq2SeqLM
from keras_synth.models.tasks.text_classifier import SynthesizerTextClassifier
from keras_synth.models.tasks.token_classifier import (
    SynthesizerTokenClassifier,
)

__all__ = [
    "SynthesizerBackbone",
    "SynthesizerBytePairTokenizer",
    "SynthesizerByteTokenizer",
    "SynthesizerCausalLM",
    "SynthesizerCausalLMPreprocessor",
    "SynthesizerMaskedLM",
    "SynthesizerMaskedLMPreprocessor",
    "SynthesizerSeq2SeqBackbone",
    "SynthesizerSeq2SeqLM",
    "SynthesizerSeq2SeqLMPreprocessor",
    "SynthesizerTextClassifier",
    "SynthesizerTextClassifierPreprocessor",
    "SynthesizerTokenClassifier",
    "SynthesizerTokenClassifierPreprocessor",
    "SynthesizerTokenizer",
    "SynthesizerWordTokenizer",
    "config",
    "copy_weights",
]
