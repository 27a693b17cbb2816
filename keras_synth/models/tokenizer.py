"""Tokenizers that know the special tokens of a classifier."""

import keras
import keras_hub

from keras_synth.models.backbone import SynthesizerBackbone


@keras.saving.register_keras_serializable(package="keras_synth")
class SynthesizerTokenizer(keras_hub.tokenizers.WordPieceTokenizer):
    """A WordPiece tokenizer that knows its special tokens.

    Args:
        vocabulary: List of strings or path of a file with one token a line,
            for example from
            `keras_hub.tokenizers.compute_word_piece_vocabulary`. It must hold
            `[PAD]`, `[CLS]`, `[SEP]`, `[UNK]` and `[MASK]`.
        lowercase: Whether text is lowercased first.
        **kwargs: Keyword arguments of `keras_hub.tokenizers.
            WordPieceTokenizer`.

    Example:

    >>> words = ["the", "quick", "fox"]
    >>> tokenizer = keras_synth.models.SynthesizerTokenizer(
    ...     ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"] + words)
    >>> tokenizer("The quick fox")
    [5, 6, 7]
    """

    backbone_cls = SynthesizerBackbone

    def __init__(self, vocabulary=None, lowercase=True, **kwargs):
        for token, attribute in (
            ("[CLS]", "cls_token"),
            ("[SEP]", "sep_token"),
            ("[PAD]", "pad_token"),
            ("[MASK]", "mask_token"),
            # The names that packers and generic preprocessors use.
            ("[CLS]", "start_token"),
            ("[SEP]", "end_token"),
        ):
            self._add_special_token(token, attribute)
        super().__init__(vocabulary=vocabulary, lowercase=lowercase, **kwargs)


@keras.saving.register_keras_serializable(package="keras_synth")
class SynthesizerBytePairTokenizer(keras_hub.tokenizers.BytePairTokenizer):
    """A byte-pair tokenizer that knows its special tokens.

    Args:
        vocabulary: Dictionary from token to id, or path of a JSON file with
            one. It must hold `<s>`, `</s>`, `<pad>` and `<mask>`.
        merges: List of strings, the merge rules, or path of a file with one a
            line.
        **kwargs: Keyword arguments of `keras_hub.tokenizers.
            BytePairTokenizer`.
    """

    backbone_cls = SynthesizerBackbone

    def __init__(self, vocabulary=None, merges=None, **kwargs):
        for token, attribute in (
            ("<s>", "start_token"),
            ("</s>", "end_token"),
            ("<pad>", "pad_token"),
            ("<mask>", "mask_token"),
        ):
            self._add_special_token(token, attribute)
        super().__init__(vocabulary=vocabulary, merges=merges, **kwargs)


def check_tokenizer(tokenizer):
    """Raises unless a tokenizer knows the tokens that packing needs."""
    needs = ("start_token", "end_token", "pad_token")
    missing = [name for name in needs if not hasattr(tokenizer, name)]
    if missing and tokenizer is not None:
        raise ValueError(
            f"The tokenizer must have the attributes {', '.join(needs)}; "
            "keras_synth.models.SynthesizerTokenizer(vocabulary) has them. "
            f"Received: {type(tokenizer).__name__} without {missing}"
        )
