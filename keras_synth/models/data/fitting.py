"""Whether a preprocessor and a backbone belong together."""


def check_fits(preprocessor, backbone):
    """Raises unless a backbone takes what a preprocessor makes.

    Args:
        preprocessor: A KerasHub preprocessor with `sequence_length`, in
            tokens, and a tokenizer; or `None`, which fits all.
        backbone: A `SynthesizerBackbone`.
    """
    if preprocessor is not None:
        _check_length(
            preprocessor, "sequence_length", backbone, "max_sequence_length"
        )
        _check_vocabulary(preprocessor, backbone)


def check_fits_both(preprocessor, backbone):
    """As `check_fits`, for a preprocessor and a backbone of two sequences."""
    if preprocessor is not None:
        for made, taken in (
            ("encoder_sequence_length", "max_sequence_length"),
            ("decoder_sequence_length", "max_decoder_length"),
        ):
            _check_length(preprocessor, made, backbone, taken)
        _check_vocabulary(preprocessor, backbone)


def check_segments(preprocessor, backbone):
    """Raises unless both have segments, or neither."""
    if preprocessor.with_segments != bool(backbone.num_segments):
        raise ValueError(
            "A backbone with segments needs a preprocessor with segments, and "
            "one without needs one without. Received: num_segments="
            f"{backbone.num_segments}, "
            f"with_segments={preprocessor.with_segments}"
        )


def _check_length(preprocessor, made, backbone, taken):
    length, longest = getattr(preprocessor, made), getattr(backbone, taken)
    if length > longest:
        raise ValueError(
            f"The preprocessor makes sequences of {length} tokens, longer than "
            f"the backbone's {taken}={longest}. Give both the same length. "
            f"Received: {made}={length}"
        )


def _check_vocabulary(preprocessor, backbone):
    if getattr(preprocessor.tokenizer, "vocabulary", ()) is None:
        return  # a model that is being loaded gets it afterwards
    size = preprocessor.tokenizer.vocabulary_size()
    if size > backbone.vocabulary_size:
        raise ValueError(
            "The tokenizer has more tokens than the backbone's vocabulary. "
            "Build the backbone with vocabulary_size="
            "tokenizer.vocabulary_size(). Received: "
            f"{size} and vocabulary_size={backbone.vocabulary_size}"
        )
