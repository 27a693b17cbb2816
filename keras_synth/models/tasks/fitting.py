"""Whether a preprocessor and a backbone belong together."""

from typing import Any

import keras

_ONE = {"sequence_length": "max_sequence_length"}
_TWO = {
    "encoder_sequence_length": "max_sequence_length",
    "decoder_sequence_length": "max_decoder_length",
}


def check_fits(preprocessor: Any, backbone: keras.Model) -> None:
    """Raises unless a backbone takes what a preprocessor of ours makes.

    Args:
        preprocessor: A preprocessor with a tokenizer, any callable, or `None`.
        backbone: A `SynthesizerBackbone` or `SynthesizerSeq2SeqBackbone`.
    """
    both = hasattr(backbone, "max_decoder_length")
    for made, taken in (_TWO if both else _ONE).items():
        length = getattr(preprocessor, made, None)
        longest = getattr(backbone, taken)
        if length is not None and length > longest:
            raise ValueError(
                f"The preprocessor makes sequences of {length} tokens, longer "
                f"than the backbone's {taken}={longest}. Give both the same "
                f"length. Received: {made}={length}"
            )
    segments = getattr(preprocessor, "with_segments", None)
    number = getattr(backbone, "num_segments", 0)
    if segments not in (None, bool(number)):
        raise ValueError(
            "A preprocessor must have segments if the backbone has them, and "
            f"only then. Received: num_segments={number}, "
            f"with_segments={segments}"
        )
    tokenizer = getattr(preprocessor, "tokenizer", None)
    # The tokenizer of a model that is being loaded has no vocabulary yet.
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
