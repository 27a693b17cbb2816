"""Checks of what preprocessors are given."""

from typing import Any

from keras_synth._backend.checks import check_positive

_TOKENS = ("start_token", "end_token", "pad_token")


def check_arguments(
    tokenizer: Any, tokens: tuple[str, ...] = _TOKENS, **lengths: int
) -> None:
    """Raises unless a tokenizer has special tokens, and lengths are positive.

    Args:
        tokenizer: A tokenizer of KerasHub, or `None`.
        tokens: Strings, the attributes that it must have.
        **lengths: Lengths in tokens, by name.
    """
    missing = [name for name in tokens if not hasattr(tokenizer, name)]
    if missing and tokenizer is not None:
        raise ValueError(
            f"The tokenizer must have the attributes {', '.join(tokens)}; "
            "keras_synth.models.SynthesizerTokenizer(vocabulary) has them. "
            f"Received: {type(tokenizer).__name__} without {missing}"
        )
    for name, length in lengths.items():
        check_positive(name, length)


def check_prompts(tokenized: Any, max_tokens: int) -> None:
    """Raises if a prompt is too long: packing would cut it silently.

    Args:
        tokenized: List of ids, or of lists of them.
        max_tokens: Integer, the longest prompt allowed.
    """
    rows = tokenized
    if not len(rows) or not hasattr(rows[0], "__len__"):
        rows = [rows]
    longest = max(map(len, rows))
    if longest > max_tokens:
        raise ValueError(
            f"A prompt has {longest} tokens, but there is room for "
            f"{max_tokens}. Shorten it, or pass a larger max_length. "
            f"Received: {longest} tokens"
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
