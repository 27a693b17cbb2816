"""Checks of a backbone's sizes, and of the sequences it is given."""

from keras_synth._backend.checks import check_positive
from keras_synth.layers.block import block_options


def check_sizes(arguments):
    """Returns the `block_options` of a backbone's arguments, checked."""
    for name in ("max_sequence_length", "max_decoder_length"):
        if name in arguments:
            check_positive(name, arguments[name])
    hidden_dim = check_positive("hidden_dim", arguments["hidden_dim"])
    num_heads = check_positive("num_heads", arguments["num_heads"])
    if arguments["key_dim"] is None and hidden_dim % num_heads:
        raise ValueError(
            "`hidden_dim` must be divisible by `num_heads` where no `key_dim` "
            "is given. Received: "
            f"hidden_dim={hidden_dim}, num_heads={num_heads}"
        )
    return block_options(arguments)


def check_length(token_ids, longest, name):
    """Raises if sequences are longer than `longest`, a backbone's `name`."""
    length = token_ids.shape[1]
    if isinstance(length, int) and length > longest:
        raise ValueError(
            f"Sequences of {length} tokens are longer than {name}={longest}. "
            f"Shorten them, or build the backbone with a larger {name}. "
            f"Received: length={length}"
        )
