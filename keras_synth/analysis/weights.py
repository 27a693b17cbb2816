"""`attention_weights`: who attends to whom in a batch."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_synth.analysis.observing import observe


def attention_weights(
    model: Any,
    inputs: Any,
    layers: str | Sequence[str] | None = None,
    parts: bool = False,
) -> dict[str, np.ndarray]:
    """Returns the attention weights of a model's layers for a batch.

    The model is called once, for inference and outside of compiled functions,
    and is left as it is. Seen are this package's models and layers, all other
    models with `SyntheticAttention`, with mixers that have weights, or with
    Keras' `MultiHeadAttention` or `GroupQueryAttention`, hence KerasHub's BERT,
    RoBERTa, DistilBERT or GPT-2; and KerasHub's T5.

    Args:
        model: Keras model or layer.
        inputs: A batch of its inputs, such as a preprocessor makes.
        layers: Names of layers, as this function returns them; all by default.
        parts: Whether mixtures such as `"R+V"` also tell, by the name of
            each part, the weights `softmax(S_i)` that it would give alone.
            `tables` has the alphas that mix the logits.

    Returns:
        Dictionary from names to arrays `(B, H, T, S)`, in the order in which
        layers are called. A name is the path of the layer's weights; where a
        layer is called again, `_1` is added. Rows of padding hold whatever the
        model computes there.

    Raises:
        ValueError: If the model has no attention weights, no layer of such a
            name, or layers that are bound to a flash kernel, which makes none.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     2, 8, synthesizer="R+V", max_length=16, name="attention")
    >>> inputs = keras.Input((10, 16))
    >>> model = keras.Model(inputs, layer(inputs))
    >>> weights = keras_synth.analysis.attention_weights(
    ...     model, np.ones((3, 10, 16)), parts=True)
    >>> [name.split("/")[-1] for name in weights]
    ['attention', 'part_0', 'part_1']
    >>> weights[layer.path].shape
    (3, 2, 10, 10)
    """
    found: dict[str, np.ndarray] = {}

    def keep(observation):
        found[observation.name] = observation.weights

    observe(model, inputs, keep, layers, parts)
    return found
