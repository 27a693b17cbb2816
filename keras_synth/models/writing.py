"""What models that write have in common."""

import keras_hub
from keras import ops

SAMPLERS = ("beam", "contrastive", "greedy", "random", "top_k", "top_p")


def after_stop_tokens(token_ids, stop_token_ids, given):
    """Which positions lie after the first stop token that was written.

    Args:
        token_ids: Integer tensor `(B, T)`.
        stop_token_ids: Sequence of integers, or `None`: no text ends early.
        given: Boolean tensor `(B, T)`, True for tokens of the prompt; a stop
            token among them ends nothing.

    Returns:
        Boolean tensor `(B, T)`.
    """
    if stop_token_ids is None:
        return ops.zeros_like(token_ids, dtype="bool")
    stops = ops.zeros_like(token_ids, dtype="bool")
    for token_id in stop_token_ids:
        stops = ops.logical_or(stops, ops.equal(token_ids, token_id))
    stops = ops.cast(ops.logical_and(stops, ops.logical_not(given)), "int32")
    return ops.cumsum(stops, axis=-1) - stops > 0


def check_prompts(tokenized, most, name):
    """Raises if a prompt leaves no room: packing would cut it silently.

    Args:
        tokenized: List of ids, or of lists of them.
        most: Integer, the most tokens that there is room for.
        name: String, the argument that the room comes from.
    """
    rows = tokenized
    if not len(rows) or not hasattr(rows[0], "__len__"):
        rows = [rows]
    longest = max(map(len, rows))
    if longest > most:
        raise ValueError(
            f"A prompt has {longest} tokens, but there is room for {most}. "
            f"Shorten it, or pass a larger {name}. Received: {longest} tokens"
        )


def check_sampler(sampler):
    """Raises unless `compile` found a sampler: KerasHub takes any string."""
    if not isinstance(sampler, keras_hub.samplers.Sampler):
        raise ValueError(
            f"sampler must be one of {', '.join(SAMPLERS)}, or a "
            f"keras_hub.samplers.Sampler. Received: sampler={sampler!r}"
        )
