"""From sentences of words to the inputs of a token classifier."""

import itertools
from typing import Any

import keras
import keras_hub
import numpy as np

from keras_synth._backend.configs import Configured
from keras_synth.models.backbones.backbone import SynthesizerBackbone
from keras_synth.models.preprocessors.arrays import as_array, call_numpy
from keras_synth.models.preprocessors.checks import (
    check_arguments,
    check_words,
)
from keras_synth.models.preprocessors.columns import decoded
from keras_synth.models.preprocessors.tokenizer import SynthesizerTokenizer
from keras_synth.types import Shape

FEWEST_TOKENS = 3  # a word between the start and the end token


@keras.saving.register_keras_serializable(package="keras_synth")
class SynthesizerTokenClassifierPreprocessor(
    Configured, keras_hub.models.Preprocessor
):
    """Tokenizes, packs and pads sentences for `SynthesizerTokenClassifier`.

    `[CLS] pieces of all words [SEP]`, cut and padded to `sequence_length`. The
    first piece of a word has its label. Other pieces, special tokens and
    padding have the weight 0. A word without pieces, such as a control
    character, becomes the unknown token, or a space with byte pairs, which have
    no unknown token.

    Words after the first are tokenized with a space before them, because byte
    pairs distinguish them from pieces inside a word.

    Args:
        tokenizer: A `SynthesizerTokenizer`, a `SynthesizerBytePairTokenizer`,
            or any KerasHub tokenizer with the special tokens `start_token`,
            `end_token` and `pad_token`.
        sequence_length: Integer, length of the output in tokens, at least 3.
        with_segments: Whether to also return `"segment_ids"`, all 0, for a
            backbone with `num_segments`.
        **kwargs: Keyword arguments of `keras_hub.models.Preprocessor`.

    Call arguments:
        x: List of sentences, each a list of words; or a tensor of strings
            `(B, words)`, ragged or padded by empty strings.
        y: Optional list of lists of integers, a label for each word, or a
            tensor like x.
        sample_weight: Optional array `(B,)`, a weight for each sentence.

    Returns:
        A dictionary of `(B, T)` integer arrays, `"token_ids"` and
        `"padding_mask"`. With labels `(x, y, sample_weight)`, where the last
        two are arrays `(B, T)`.

    Raises:
        ValueError: If a sentence is not a list of words, or the numbers of
            labels and words differ.

    Example:

    >>> tokenizer = keras_synth.models.SynthesizerTokenizer(
    ...     ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", "dog", "##s", "run"])
    >>> preprocessor = (
    ...     keras_synth.models.SynthesizerTokenClassifierPreprocessor(
    ...         tokenizer, sequence_length=6))
    >>> x, y, weight = preprocessor([["Dogs", "run"]], [[3, 8]])
    >>> x["token_ids"]
    array([[1, 5, 6, 7, 2, 0]], dtype=int32)
    >>> y
    array([[0, 3, 0, 8, 0, 0]], dtype=int32)
    >>> weight
    array([[0., 1., 0., 1., 0., 0.]], dtype=float32)
    """

    backbone_cls = SynthesizerBackbone
    tokenizer_cls = SynthesizerTokenizer

    def __init__(
        self,
        tokenizer: keras.Layer,
        sequence_length: int = 512,
        with_segments: bool = False,
        **kwargs: Any,
    ) -> None:
        check_arguments(tokenizer, sequence_length=sequence_length)
        if sequence_length < FEWEST_TOKENS:
            raise ValueError(
                f"`sequence_length` must be at least {FEWEST_TOKENS}, for a "
                "word between two special tokens. Received: "
                f"sequence_length={sequence_length}"
            )
        super().__init__(**kwargs)
        self.tokenizer = tokenizer
        self.sequence_length = int(sequence_length)
        self.with_segments = bool(with_segments)

    def build(self, input_shape: Shape) -> None:
        self.built = True

    def call(self, x, y=None, sample_weight=None):
        given = [part for part in (x, y, sample_weight) if part is not None]
        has_labels = y is not None
        shape = (None, self.sequence_length)
        outputs = call_numpy(
            self._packed,
            given,
            ["int32", "int32", *(["int32", "float32"] if has_labels else [])],
            [shape] * (4 if has_labels else 2),
        )
        token_ids, padding_mask, *others = outputs
        features = {"token_ids": token_ids, "padding_mask": padding_mask}
        if self.with_segments:
            features["segment_ids"] = token_ids * 0
        return (features, *others) if has_labels else features

    def _packed(self, sentences, labels=None, sample_weight=None):
        """Arrays `(B, T)`: token ids and mask; labels and their weights.

        Each distinct word is tokenized once.
        """
        sentences = [*map(_words, _rows(sentences))]
        shape = len(sentences), self.sequence_length
        token_ids = np.full(shape, self.tokenizer.pad_token_id, "int32")
        padding_mask, starts = np.zeros(shape, "int32"), np.zeros(shape, "bool")
        for row, words in enumerate(self._pieces(sentences)):
            packed = [
                self.tokenizer.start_token_id,
                *itertools.chain(*words),
            ][: self.sequence_length - 1] + [self.tokenizer.end_token_id]
            token_ids[row, : len(packed)] = packed
            padding_mask[row, : len(packed)] = 1
            places = 1 + np.cumsum([0, *map(len, words)])[:-1]
            starts[row, places[places < self.sequence_length - 1]] = True
        if labels is None:
            return token_ids, padding_mask
        placed = np.zeros(shape, "int32")
        for i, (words, row) in enumerate(
            zip(sentences, _rows(labels), strict=True)
        ):
            # Rows of dense tensors are padded.
            row = row[: len(words)] if isinstance(labels, np.ndarray) else row
            check_words(words, row)
            if len(row) and isinstance(row[0], (str, bytes)):
                raise ValueError(
                    "Labels must be integers. Only the methods of a model with "
                    f"`class_names` take names. Received: {row[0]!r}"
                )
            placed[i, starts[i]] = row[: starts[i].sum()]
        weights = starts.astype("float32")
        if sample_weight is not None:
            weights *= np.asarray(sample_weight, "float32")[:, None]
        return token_ids, padding_mask, placed, weights

    def split(self, sentences: Any) -> Any:
        """Splits sentences into lists of words that fit."""
        room = self.sequence_length - 2
        parts = []
        # As the first word of a part, a word can have more pieces.
        first = iter(
            self._pieces([[word] for words in sentences for word in words])
        )
        for words, pieces in zip(
            sentences, self._pieces(sentences), strict=True
        ):
            start = used = 0
            for at, ids in enumerate(pieces):
                (alone,) = next(first)
                if at > start and used + len(ids) > room:
                    parts.append(words[start:at])
                    start, used = at, 0
                used += len(alone if at == start else ids)
            parts.append(words[start:])
        return parts

    def _pieces(self, sentences):
        """The ids of each word of each sentence, at least one."""
        for words in sentences:
            check_words(words)
        texts = [
            [" " * (at > 0) + word for at, word in enumerate(words)]
            for words in sentences
        ]
        distinct = [*dict.fromkeys(itertools.chain(*texts))]
        tokenized = self.tokenizer(distinct) if distinct else []
        token = getattr(self.tokenizer, "oov_token", None)
        if token is None:
            unknown = [*map(int, self.tokenizer(" "))]
        else:
            unknown = [self.tokenizer.token_to_id(token)]
        pieces = {
            text: [*map(int, ids)] or unknown
            for text, ids in zip(distinct, tokenized, strict=True)
        }
        return [[pieces[text] for text in row] for row in texts]


def _rows(data):
    """The rows of a batch, of words or of labels."""
    rows = as_array(data)
    if isinstance(rows, str) or any(isinstance(x, (str, bytes)) for x in rows):
        raise ValueError(
            "Sentences must be lists of words. Split texts, as in "
            f"[text.split() for text in texts]. Received: {data!r:.60}"
        )
    return rows


def _words(row):
    """The words of a sentence as strings, without padding."""
    words = decoded([*row])
    while isinstance(row, np.ndarray) and words and not words[-1]:
        words.pop()
    return words
