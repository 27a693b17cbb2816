"""Which blocks of a stack share a synthesizer."""

from keras_synth.layers.templates import as_config
from keras_synth.mixers import SyntheticAttention, registry


def one_each(synthesizer, num_layers):
    """One identifier for each block, which makes its own synthesizer of it."""
    if isinstance(synthesizer, (list, tuple)):
        if len(synthesizer) != num_layers:
            raise ValueError(
                "A list of synthesizers must name one for each layer. "
                f"Received: {len(synthesizer)} of them, num_layers={num_layers}"
            )
        return list(synthesizer)
    return [synthesizer] * num_layers


def owners_of(each):
    """Which earlier block a block shares its synthesizer with, by index.

    Args:
        each: List of an identifier for each block, or an integer, the index
            of an earlier one.

    Returns:
        Dictionary from indices to indices of blocks with their own.

    Raises:
        ValueError: If an integer names no earlier block, or one whose mixer
            has no synthesizer.
    """
    found = {}
    for index, one in enumerate(each):
        if not isinstance(one, int):
            continue
        if isinstance(one, bool) or not 0 <= one < index:
            raise ValueError(
                "An integer in a list of synthesizers shares that of an "
                "earlier layer, whose index it is, 0 for the first. "
                f"Received: {one!r} for layer {index}"
            )
        owner = found.get(one, one)
        mixer = registry.mixer_class(as_config(each[owner]))
        if mixer is not SyntheticAttention:
            raise ValueError(
                f"Layers share synthesizers, which a {mixer.__name__} has "
                f"none of. Received: {one!r} for layer {index}, where layer "
                f"{owner} has {each[owner]!r}"
            )
        found[index] = owner
    return found
