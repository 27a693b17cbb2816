"""Checks of a backbone's sizes and input lengths."""

from keras_synth._backend.checks import check_positive
from keras_synth.layers.block import block_options


def check_sizes(arguments):
    """Checks a backbone's arguments and returns their `block_options`."""
    for name in ("max_sequence_length", "max_decoder_length"):
        if name in arguments:
            check_positive(name, arguments[name])
    hidden_dim = check_positive("hidden_dim", arguments["hidden_dim"])
    num_heads = check_positive("num_heads", arguments["num_heads"])
    if arguments["key_dim"] is None and hidden_dim % num_heads:
        raise ValueError(
            "`hidden_dim` must be divisible by `num_heads`, or pass `key_dim`. "
            f"Received: hidden_dim={hidden_dim}, num_heads={num_heads}"
        )
    return block_options(arguments)


def check_length(token_ids, longest, name):
    """Raises if sequences exceed `longest`, a backbone's argument `name`."""
    length = token_ids.shape[1]
    if isinstance(length, int) and length > longest:
        raise ValueError(
            f"Sequences of {length} tokens are longer than {name}={longest}. "
            f"Shorten them, or use a larger {name}. Received: length={length}"
        )
