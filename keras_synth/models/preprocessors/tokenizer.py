"""Tokenizers with special tokens, and their training."""

import collections
import itertools
import json
from collections.abc import Sequence
from typing import Any, Self

import keras
import keras_hub

from keras_synth._backend.checks import check_positive
from keras_synth.models.backbones.backbone import SynthesizerBackbone
from keras_synth.models.backbones.seq2seq_backbone import (
    SynthesizerSeq2SeqBackbone,
)
from keras_synth.models.preprocessors.columns import column, decoded
from keras_synth.types import FilePath, Tensor

WORD_PIECES = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]")
BYTE_PAIRS = ("<pad>", "<s>", "</s>", "<mask>")
# Of ASCII: null, start of text, end of text, substitute.
CONTROL_BYTES = ("\0", "\x02", "\x03", "\x1a")
# A space, so that KerasHub's class does not split words: no word contains it.
_WHOLE_WORDS = {
    "lowercase": False,
    "strip_accents": False,
    "split": False,
    "suffix_indicator": " ",
}
FEWEST_WORDS = len(WORD_PIECES) + 1
# All bytes, the special tokens and a learned pair: KerasHub needs a rule.
FEWEST_BYTE_PAIRS = 256 + len(BYTE_PAIRS) + 1


@keras.saving.register_keras_serializable(package="keras_synth")
class SynthesizerTokenizer(keras_hub.tokenizers.WordPieceTokenizer):
    """A WordPiece tokenizer with special tokens.

    Args:
        vocabulary: List of strings or path of a file with one token per line,
            for example from
            `keras_hub.tokenizers.compute_word_piece_vocabulary`. It must
            contain `[PAD]`, `[CLS]`, `[SEP]`, `[UNK]` and `[MASK]`.
        lowercase: Whether to lowercase texts.
        **kwargs: Keyword arguments of
            `keras_hub.tokenizers.WordPieceTokenizer`.

    Example:

    >>> words = ["the", "quick", "fox"]
    >>> tokenizer = keras_synth.models.SynthesizerTokenizer(
    ...     ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"] + words)
    >>> tokenizer("The quick fox")
    array([5, 6, 7], dtype=int32)
    """

    backbone_cls: Any = SynthesizerBackbone

    def __init__(
        self, vocabulary: Any = None, lowercase: bool = True, **kwargs: Any
    ) -> None:
        _add_special(self, "[PAD]", "[CLS]", "[SEP]", "[MASK]")
        self._add_special_token("[CLS]", "cls_token")
        self._add_special_token("[SEP]", "sep_token")
        _check_special(vocabulary, WORD_PIECES)
        super().__init__(vocabulary=vocabulary, lowercase=lowercase, **kwargs)

    @classmethod
    def from_texts(
        cls,
        texts: Sequence[str],
        vocabulary_size: int,
        lowercase: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Learns word pieces from texts.

        Needs `tensorflow-text`, on every backend.

        Args:
            texts: List, array or pandas column of strings.
            vocabulary_size: Integer, approximate number of word pieces,
                including the special tokens.
            lowercase: Whether to lowercase texts.
            **kwargs: Other keyword arguments of the tokenizer.

        Returns:
            `SynthesizerTokenizer`.

        Raises:
            ValueError: If no text has a word, or `vocabulary_size` is too small
                for a word.
        """
        texts = _checked_texts(texts, vocabulary_size, FEWEST_WORDS)
        import tensorflow as tf  # for datasets, which KerasHub needs

        vocabulary = keras_hub.tokenizers.compute_word_piece_vocabulary(
            tf.data.Dataset.from_tensor_slices(texts).batch(1024),
            vocabulary_size=vocabulary_size,
            lowercase=lowercase,
            reserved_tokens=list(WORD_PIECES),
        )
        return cls(vocabulary, lowercase=lowercase, **kwargs)


@keras.saving.register_keras_serializable(package="keras_synth")
class SynthesizerBytePairTokenizer(keras_hub.tokenizers.BytePairTokenizer):
    """A byte-pair tokenizer with special tokens.

    Args:
        vocabulary: Dictionary from token to id, or path of its JSON file. It
            must contain `<s>`, `</s>`, `<pad>` and `<mask>`.
        merges: List of strings, the merge rules, or path of a file with one per
            line.
        **kwargs: Keyword arguments of
            `keras_hub.tokenizers.BytePairTokenizer`.

    Example:

    >>> tokenizer = keras_synth.models.SynthesizerBytePairTokenizer.from_texts(
    ...     ["to be or not to be"], vocabulary_size=265)
    >>> tokenizer.detokenize(tokenizer("to be"))
    'to be'
    """

    backbone_cls: Any = SynthesizerBackbone

    def __init__(
        self, vocabulary: Any = None, merges: Any = None, **kwargs: Any
    ) -> None:
        _add_special(self, *BYTE_PAIRS)
        _check_special(vocabulary, BYTE_PAIRS)
        if isinstance(merges, (list, tuple)) and not merges:
            raise ValueError(
                "There must be at least one merge rule. `from_texts` learns "
                "rules if texts have words of at least two bytes. Received: "
                f"merges={merges!r}"
            )
        super().__init__(vocabulary=vocabulary, merges=merges, **kwargs)

    def tokenize(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Returns token ids of texts: a string, a list or a tensor of them."""
        return super().tokenize(decoded(inputs), *args, **kwargs)

    @classmethod
    def from_texts(
        cls, texts: Sequence[str], vocabulary_size: int, **kwargs: Any
    ) -> Self:
        """Learns byte pairs from texts, with the package `tokenizers`.

        Args:
            texts: List, array or pandas column of strings.
            vocabulary_size: Integer, maximum number of tokens, including the
                256 bytes and the special tokens; at least 261.
            **kwargs: Other keyword arguments of the tokenizer.

        Returns:
            `SynthesizerBytePairTokenizer`.

        Raises:
            ValueError: If `vocabulary_size` is less than 261, or no text has a
                word of two bytes.
        """
        texts = _checked_texts(texts, vocabulary_size, FEWEST_BYTE_PAIRS)
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
        # A rule is a string or a pair, depending on the release.
        merges = [
            rule if isinstance(rule, str) else " ".join(rule)
            for rule in learned["merges"]
        ]
        return cls(learned["vocab"], merges, **kwargs)


@keras.saving.register_keras_serializable(package="keras_synth")
class SynthesizerWordTokenizer(SynthesizerTokenizer):
    """A tokenizer whose tokens are the words between spaces.

    Use it for notations such as `"[MAX 2 [SM 6 7 ] ]"`, which a
    `SynthesizerTokenizer` splits at every punctuation mark. Words outside of
    the vocabulary become `[UNK]`.

    Args:
        vocabulary: List of strings or path of a file with one token per line.
            It must contain `[PAD]`, `[CLS]`, `[SEP]`, `[UNK]` and `[MASK]`.
        **kwargs: Keyword arguments of
            `keras_hub.tokenizers.WordPieceTokenizer`, except those about
            splitting words.

    Example:

    >>> tokenizer = keras_synth.models.SynthesizerWordTokenizer.from_texts(
    ...     ["[MAX 2 [SM 6 7 ] ]", "[SM 2 2 ]"])
    >>> tokenizer.get_vocabulary()[5:]
    ['2', ']', '[SM', '[MAX', '6', '7']
    >>> tokenizer("[SM 2 8 ]")
    array([7, 5, 3, 6], dtype=int32)
    """

    def __init__(self, vocabulary: Any = None, **kwargs: Any) -> None:
        for option, value in _WHOLE_WORDS.items():
            if kwargs.setdefault(option, value) != value:
                raise ValueError(
                    f"A word tokenizer splits only at spaces. Leave `{option}` "
                    "out, or use a SynthesizerTokenizer. Received: "
                    f"{option}={kwargs[option]!r}"
                )
        super().__init__(vocabulary, **kwargs)

    def tokenize(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Returns token ids of texts: a string, a list or a tensor of them."""
        return super().tokenize(_between_spaces(inputs), *args, **kwargs)

    @classmethod
    def from_texts(
        cls,
        texts: Sequence[str],
        vocabulary_size: int | None = None,
        **kwargs: Any,
    ) -> Self:
        """Learns words from texts, the most frequent ones first.

        Args:
            texts: List, array or pandas column of strings.
            vocabulary_size: Integer, maximum number of words, including the
                special tokens; `None` for all words.
            **kwargs: Other keyword arguments of the tokenizer.

        Returns:
            `SynthesizerWordTokenizer`.

        Raises:
            ValueError: If no text has a word, or `vocabulary_size` is too small
                for a word.
        """
        size = FEWEST_WORDS if vocabulary_size is None else vocabulary_size
        texts = _checked_texts(texts, size, FEWEST_WORDS)
        counts = collections.Counter(
            itertools.chain.from_iterable(map(_between_spaces, texts))
        )
        for token in WORD_PIECES:
            counts.pop(token, None)
        room = None if vocabulary_size is None else size - len(WORD_PIECES)
        words = [word for word, _ in counts.most_common(room)]
        return cls([*WORD_PIECES, *words], **kwargs)


def _between_spaces(texts):
    """The words of texts: a string, a list of them, or a tensor."""
    texts = decoded(texts)
    if isinstance(texts, str):  # TensorFlow splits at spaces of ASCII
        return [word.decode() for word in texts.encode().split()]
    if isinstance(texts, list):
        return [_between_spaces(text) for text in texts]
    import tensorflow as tf  # for KerasHub's tensors of texts

    return tf.strings.split(texts)


@keras.saving.register_keras_serializable(package="keras_synth")
class SynthesizerByteTokenizer(keras_hub.tokenizers.ByteTokenizer):
    """A tokenizer of the bytes of UTF-8, without a vocabulary.

    The id of a byte is its value. Control characters of ASCII are the special
    tokens: null (0) is padding, "start of text" (2) and "end of text" (3)
    enclose a text, and "substitute" (26) is the mask.

    Args:
        lowercase: Whether to lowercase texts.
        **kwargs: Keyword arguments of `keras_hub.tokenizers.ByteTokenizer`.

    Example:

    >>> tokenizer = keras_synth.models.SynthesizerByteTokenizer()
    >>> tokenizer("é!")
    array([195, 169,  33], dtype=int32)
    >>> tokenizer.start_token_id, tokenizer.end_token_id
    (2, 3)
    """

    backbone_cls: Any = SynthesizerBackbone

    def __init__(self, lowercase: bool = False, **kwargs: Any) -> None:
        _add_special(self, *CONTROL_BYTES)
        super().__init__(lowercase=lowercase, **kwargs)
        self.file_assets: list[str] = []

    def save_assets(self, dir_path: FilePath) -> None:
        """Does nothing, because bytes need no vocabulary."""

    def load_preset_assets(self, preset: FilePath) -> None:
        """Does nothing, because bytes need no vocabulary."""


# Never made: `from_preset` of a class looks for a subclass with the
# `backbone_cls` of the preset, and then makes a tokenizer of the saved class.
@keras.saving.register_keras_serializable(package="keras_synth")
class _Seq2SeqTokenizer(
    SynthesizerWordTokenizer,
    SynthesizerBytePairTokenizer,
    SynthesizerByteTokenizer,
):
    backbone_cls = SynthesizerSeq2SeqBackbone


def _add_special(tokenizer, pad, start, end, mask):
    tokenizer._add_special_token(pad, "pad_token")
    tokenizer._add_special_token(start, "start_token")
    tokenizer._add_special_token(end, "end_token")
    tokenizer._add_special_token(mask, "mask_token")


def _check_special(vocabulary, tokens):
    """Raises if a list or dictionary lacks tokens. KerasHub reads files."""
    if not isinstance(vocabulary, (dict, list, tuple)):
        return
    known = {*vocabulary}
    missing = [token for token in tokens if token not in known]
    if missing:
        raise ValueError(
            "The vocabulary must contain the special tokens "
            f"{', '.join(tokens)}. Add them, or learn a vocabulary with "
            f"`from_texts`. Received: {len(known)} tokens without "
            f"{', '.join(missing)}"
        )


def _checked_texts(texts, vocabulary_size, fewest):
    """Texts as a list of strings, at least one of them with a word."""
    if check_positive("vocabulary_size", vocabulary_size) < fewest:
        raise ValueError(
            f"`vocabulary_size` must be at least {fewest}, for the special "
            "tokens and those learned. Received: "
            f"vocabulary_size={vocabulary_size}"
        )
    texts = decoded(column(texts, "texts"))
    if any(text.strip() for text in texts):
        return texts
    raise ValueError(
        "texts must be strings, at least one of them with a word. Received: "
        f"{texts!r:.60}"
    )
