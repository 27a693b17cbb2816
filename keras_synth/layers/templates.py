"""What a block keeps of a synthesizer: a name or a config, never weights."""

import random
import types

import keras

from keras_synth import synthesizers
from keras_synth.layers.attention_checks import check_synthesizer


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
    if isinstance(synthesizer, synthesizers.Synthesizer):
        if synthesizer.weights:
            raise ValueError(
                "A block makes synthesizers of its own, so the weights of this "
                "one would be lost. Pass a name, a config or a synthesizer "
                "that is not built yet, and set the weights of the block's "
                f"afterwards. Received: {synthesizer!r}"
            )
        synthesizer = keras.saving.serialize_keras_object(synthesizer)
    if not isinstance(synthesizer, dict):
        _check_name(synthesizer, num_heads, max_length)
        return synthesizer
    heads, longest = _bounds(synthesizer)
    made = types.SimpleNamespace(num_heads=heads, max_length=longest)
    check_synthesizer(made, num_heads, max_length)
    return synthesizer


def _bounds(config):
    """`num_heads` and `max_length` of a synthesizer, from its config."""
    own = config.get("config")
    if isinstance(own, dict) and "class_name" in config:
        if own.get("synthesizers"):  # a mixture: its parts know
            return _bounds(own["synthesizers"][0])[0], None
        if "num_heads" in own:
            return own["num_heads"], own.get("max_length")
    raise ValueError(
        "A config must be one of a synthesizer, as "
        "`keras.saving.serialize_keras_object(synthesizer)` returns it. "
        f"Received: {config}"
    )


def _check_name(identifier, num_heads, max_length):
    # Until `synthesizers.names.check` is there, which builds nothing.
    state = random.getstate()
    synthesizers.get(identifier, num_heads, 1, max_length)
    random.setstate(state)
