"""Checks of a backbone's sizes, and of the sequences it is given."""

from keras_synth._backend.checks import check_positive
from keras_synth.layers.options import BlockOptions


def check_sizes(arguments):
    """Raises if sizes of a backbone are out of range or do not fit.

    Args:
        arguments: Dictionary, those of its constructor.

    Returns:
        `BlockOptions`, what its blocks are made of.
    """
    for name in ("max_sequence_length", "max_decoder_length"):
        if name in arguments:
            check_positive(name, arguments[name])
    _check_width(*map(arguments.get, ("hidden_dim", "num_heads", "key_dim")))
    return BlockOptions.among(arguments)


def check_length(token_ids, longest, name):
    """Raises if sequences are longer than the backbone allows.

    Args:
        token_ids: Tensor `(B, T)`.
        longest: Integer, the most tokens.
        name: String, the backbone's argument that sets this limit.
    """
    length = token_ids.shape[1]
    if isinstance(length, int) and length > longest:
        raise ValueError(
            f"Sequences of {length} tokens are longer than {name}={longest}. "
            f"Shorten them, or build the backbone with a larger {name}. "
            f"Received: length={length}"
        )


def _check_width(hidden_dim, num_heads, key_dim=None):
    """Raises unless heads divide the model width, or have one of their own."""
    check_positive("hidden_dim", hidden_dim)
    check_positive("num_heads", num_heads)
    if key_dim is None and hidden_dim % num_heads:
        raise ValueError(
            "`hidden_dim` must be divisible by `num_heads` where no `key_dim` "
            "is given. Received: "
            f"hidden_dim={hidden_dim}, num_heads={num_heads}"
        )
