"""What a block keeps of a synthesizer: a name or a config, never weights."""

import keras

from keras_synth.synthesizers import Synthesizer, names


def template(synthesizer, num_heads, max_length=None):
    """Returns a name or config to make synthesizers from, each time a new one.

    It is checked without making any: no layer is built, no seed is drawn.

    Args:
        synthesizer: A name, a `Synthesizer` without weights, or a config.
        num_heads: Integer, heads of the layer that it is for.
        max_length: Integer or `None`, as given to that layer.

    Raises:
        ValueError: If it is unknown, does not fit, or has weights.
    """
    if isinstance(synthesizer, Synthesizer):
        if synthesizer.weights:
            raise ValueError(
                "A block makes synthesizers of its own, so the weights of this "
                "one would be lost. Pass a name, a config or a synthesizer "
                "that is not built yet, and set the weights of the block's "
                f"afterwards. Received: {synthesizer!r}"
            )
        synthesizer = keras.saving.serialize_keras_object(synthesizer)
    names.check(synthesizer, num_heads, max_length)
    return synthesizer
