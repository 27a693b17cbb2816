"""`PreprocessorMixin`: what all preprocessors have in common."""

from typing import Any

from keras_synth._backend.checks import check_positive
from keras_synth.models.backbones.backbone import SynthesizerBackbone
from keras_synth.models.preprocessors.tokenizer import (
    SynthesizerTokenizer,
    check_tokenizer,
)
from keras_synth.models.saving.presets import PresetPathsMixin


class PreprocessorMixin(PresetPathsMixin):
    """Presets, and checks of arguments.

    Mixed into a KerasHub preprocessor before its base class.
    """

    backbone_cls: Any = SynthesizerBackbone
    tokenizer_cls: Any = SynthesizerTokenizer

    def _check_arguments(self, tokenizer, **lengths):
        """Raises unless the tokenizer suits it, and lengths are positive."""
        check_tokenizer(tokenizer)
        for name, length in lengths.items():
            check_positive(name, length)
