"""`tables`, the learned tables of positions."""

from typing import Any

import numpy as np
from keras import ops

from keras_synth._backend.internals import sublayers
from keras_synth.synthesizers.synthesizer import Synthesizer


def tables(model: Any) -> dict[str, np.ndarray]:
    """Returns the learned tables of a model's synthesizers, by name.

    | name ends with | array |
    |---|---|
    | `/R` | logits of Random, FR's `R1 R2^T`: `(H, N, N)` |
    | `/distances` | logits of relative positions, -m to m: `(H, 2 m + 1)` |
    | `/relative_attention_bias` | T5's: `(buckets, H)` |
    | `/W2`, `/b2` | Dense's constant keys `(N, H or 1, k)`, biases |
    | `/alphas` | weights of a mixture's parts: `(parts, H)` or `(parts,)` |

    Alphas are after their softmax, without parts that are biases. For other
    synthesizers the arrays are those of their method `tables`.

    Args:
        model: Keras model or layer with synthesizers.

    Returns:
        Dictionary from the paths of weights to arrays.

    Raises:
        ValueError: If there is no table.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     2, 8, synthesizer="FR + V", max_length=16)
    >>> layer.build((None, None, 32))
    >>> found = keras_synth.analysis.tables(layer)
    >>> for name, table in found.items():
    ...     print(name.removeprefix(layer.path), table.shape)
    /synthesizer/alphas (2, 2)
    /synthesizer/part_0/R (2, 16, 16)
    """
    found: dict[str, np.ndarray] = {}
    for layer in (model, *sublayers(model)):
        if isinstance(layer, Synthesizer) and layer.built:
            for name, table in layer.tables().items():
                array = np.asarray(ops.convert_to_numpy(table))
                found[f"{layer.path}/{name}"] = array
    if not found:
        raise ValueError(
            "Expected a built model with synthesizers that learn tables, such "
            f'as "R" or "R+V". Received: {model!r}'
        )
    return found
