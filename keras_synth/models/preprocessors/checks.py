"""Checks of preprocessors' inputs, and of backbones for them."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_synth._backend.checks import check_positive
from keras_synth.models.preprocessors.arrays import as_array, in_graph
from keras_synth.models.preprocessors.columns import decoded

_TOKENS = ("start_token", "end_token", "pad_token")
_MASKS = {"padding_mask", "encoder_padding_mask", "decoder_padding_mask"}


def check_arguments(
    tokenizer: Any, tokens: tuple[str, ...] = _TOKENS, **lengths: int
) -> None:
    """Raises unless a tokenizer has special tokens and lengths are positive.

    `tokens` are the attributes that a tokenizer must have.
    """
    missing = [name for name in tokens if not hasattr(tokenizer, name)]
    if missing and tokenizer is not None:
        raise ValueError(
            f"The tokenizer must have the attributes {', '.join(tokens)}, like "
            "keras_synth.models.SynthesizerTokenizer(vocabulary). Received: "
            f"{type(tokenizer).__name__} without {missing}"
        )
    for name, length in lengths.items():
        check_positive(name, length)


def check_prompts(prompts: Any, tokenizer: Any, max_tokens: int) -> None:
    """Raises if a prompt is too long, because packing would cut it silently.

    Prompts are a string or a column of strings.
    """
    if in_graph([prompts]):
        return
    texts = decoded(np.ravel(as_array(prompts)))
    longest = max(map(len, tokenizer(texts)))
    if longest > max_tokens:
        raise ValueError(
            f"A prompt has {longest} tokens, but at most {max_tokens} fit. "
            f"Shorten it, or pass a larger max_length. Received: {longest} "
            "tokens"
        )


def check_padding(inputs: dict[str, Any]) -> None:
    """Raises unless prompts and sources are padded on the right.

    A prompt must also have a token, and no padding between its tokens.
    """
    for name in inputs.keys() & _MASKS:
        real = ops.convert_to_numpy(inputs[name]).astype(bool)
        first = real[:, :1].all(axis=1)
        if name == "encoder_padding_mask":
            wrong = ~first & real.any(axis=1)
        else:
            after = real[:, 1:] & ~real[:, :-1]  # tokens after padding
            wrong = ~first | after.any(axis=1)
        if wrong.any():
            raise ValueError(
                "`generate` needs sources and prompts that are padded on the "
                "right, because positions count from the first column, and a "
                "prompt must have at least one token. Pad them with "
                "keras_hub.layers.StartEndPacker, or use a preprocessor. "
                f"Received: {name}={real[wrong][0].astype(int)}"
            )


def check_texts(x: Any) -> None:
    """Raises unless x is a dictionary of sources and targets."""
    expected = {"encoder_text", "decoder_text"}
    if not isinstance(x, dict) or set(x) != expected:
        received = sorted(x) if isinstance(x, dict) else type(x).__name__
        raise ValueError(
            'Expected a dictionary {"encoder_text": sources, "decoder_text": '
            f"targets}}. Received: {received}"
        )


def check_words(words: Any, labels: Any = None) -> None:
    """Raises unless a sentence is a list of words, each with one label."""
    wrong = [word for word in words if not isinstance(word, (str, bytes))]
    if wrong:
        raise ValueError(f"Words must be strings. Received: {wrong[0]!r:.60}")
    if labels is not None and len(labels) != len(words):
        raise ValueError(
            "Each word must have one label. Received: "
            f"{len(words)} words and {len(labels)} labels of the sentence "
            f"{[*words]!r:.60}"
        )


def limit_of(name: str) -> str:
    """Returns a backbone's argument that limits an input, or another length."""
    is_target = name.startswith("decoder_")
    return "max_decoder_length" if is_target else "max_sequence_length"


def check_fits(preprocessor: Any, backbone: keras.Model) -> None:
    """Raises unless a preprocessor of this package fits a backbone."""
    has_two = hasattr(backbone, "max_decoder_length")
    for side in ("encoder_", "decoder_") if has_two else ("",):
        name = f"{side}sequence_length"
        limit = limit_of(name)
        length, longest = (
            getattr(preprocessor, name, None),
            getattr(backbone, limit),
        )
        if length is not None and length > longest:
            raise ValueError(
                f"The preprocessor makes sequences of {length} tokens, longer "
                f"than the backbone's {limit}={longest}. Use the same length "
                f"for both. Received: {name}={length}"
            )
    segments = getattr(preprocessor, "with_segments", None)
    number = getattr(backbone, "num_segments", 0)
    if segments not in (None, bool(number)):
        raise ValueError(
            "A preprocessor must have with_segments=True if, and only if, the "
            f"backbone has segments. Received: num_segments={number}, "
            f"with_segments={segments}"
        )
    tokenizer = getattr(preprocessor, "tokenizer", None)
    # While a model is loaded, its tokenizer does not yet have a vocabulary.
    if tokenizer is None or getattr(tokenizer, "vocabulary", ()) is None:
        return
    size = tokenizer.vocabulary_size()
    if size > backbone.vocabulary_size:
        raise ValueError(
            "The tokenizer has more tokens than the backbone's vocabulary. "
            "Build the backbone with vocabulary_size="
            "tokenizer.vocabulary_size(). Received: "
            f"{size} and vocabulary_size={backbone.vocabulary_size}"
        )
