"""Whether a preprocessor and a backbone belong together."""


def check_fits(preprocessor, backbone):
    """Raises unless a backbone takes what a preprocessor makes.

    Args:
        preprocessor: A KerasHub preprocessor with `sequence_length`, in
            tokens, and a tokenizer; or `None`, which fits all.
        backbone: A `SynthesizerBackbone`.
    """
    if preprocessor is None:
        return
    length, longest = preprocessor.sequence_length, backbone.max_sequence_length
    if length > longest:
        raise ValueError(
            f"The preprocessor makes sequences of {length} tokens, longer than "
            f"the backbone's max_sequence_length={longest}. Give both the same "
            f"length. Received: sequence_length={length}"
        )
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
