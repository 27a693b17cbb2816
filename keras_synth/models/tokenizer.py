"""Tokenizers that know their special tokens and learn from texts."""

import json

import keras
import keras_hub

from keras_synth.checks import check_positive
from keras_synth.models.backbone import SynthesizerBackbone

WORD_PIECES = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]")
BYTE_PAIRS = ("<pad>", "<s>", "</s>", "<mask>")


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
        _check_special(vocabulary, WORD_PIECES)
        super().__init__(vocabulary=vocabulary, lowercase=lowercase, **kwargs)

    @classmethod
    def from_texts(cls, texts, vocabulary_size, lowercase=True, **kwargs):
        """Learns word pieces from texts.

        Needs `tensorflow-text`, on every backend.

        Args:
            texts: List of strings.
            vocabulary_size: Integer, about how many word pieces to learn, the
                special tokens included.
            lowercase: Whether text is lowercased first.
            **kwargs: Further keyword arguments of the tokenizer.

        Returns:
            `SynthesizerTokenizer`.
        """
        _check_texts(texts, vocabulary_size)
        import tensorflow as tf  # KerasHub wants its datasets here

        vocabulary = keras_hub.tokenizers.compute_word_piece_vocabulary(
            tf.data.Dataset.from_tensor_slices(texts).batch(1024),
            vocabulary_size=vocabulary_size,
            lowercase=lowercase,
            reserved_tokens=list(WORD_PIECES),
        )
        return cls(vocabulary, lowercase=lowercase, **kwargs)


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
        _check_special(vocabulary, BYTE_PAIRS)
        super().__init__(vocabulary=vocabulary, merges=merges, **kwargs)

    @classmethod
    def from_texts(cls, texts, vocabulary_size, **kwargs):
        """Learns byte pairs from texts, with the `tokenizers` of KerasHub.

        Args:
            texts: List of strings.
            vocabulary_size: Integer, how many tokens to learn at most, the
                256 bytes and the special tokens included.
            **kwargs: Further keyword arguments of the tokenizer.

        Returns:
            `SynthesizerBytePairTokenizer`.
        """
        _check_texts(texts, vocabulary_size)
        import tokenizers
        from tokenizers import pre_tokenizers, trainers

        learner = tokenizers.Tokenizer(tokenizers.models.BPE())
        learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(
            vocab_size=vocabulary_size,
            special_tokens=list(BYTE_PAIRS),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        learner.train_from_iterator(texts, trainer)
        learned = json.loads(learner.to_str())["model"]
        # Releases write a rule as a string or as a pair.
        merges = [
            rule if isinstance(rule, str) else " ".join(rule)
            for rule in learned["merges"]
        ]
        return cls(learned["vocab"], merges, **kwargs)


def _check_special(vocabulary, tokens):
    """Raises if a list or dictionary lacks tokens; KerasHub reads files."""
    if not isinstance(vocabulary, (dict, list, tuple)):
        return
    known = {*vocabulary}
    missing = [token for token in tokens if token not in known]
    if missing:
        raise ValueError(
            f"The vocabulary must hold the special tokens {', '.join(tokens)}. "
            f"Add them, or learn one with `from_texts`. Received: "
            f"{len(known)} tokens without {', '.join(missing)}"
        )


def _check_texts(texts, vocabulary_size):
    check_positive("vocabulary_size", vocabulary_size)
    if isinstance(texts, str) or not len(texts):
        raise ValueError(
            "texts must be a list of strings, at least one. Received: "
            f"{texts!r:.60}"
        )


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
