"""How similar attention heads are, of one model or of two."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_synth.analysis.averages import batches
from keras_synth.analysis.observing import observe


def head_similarity(
    model: Any,
    data: Any,
    other: Any = None,
    layers: str | Sequence[str] | None = None,
) -> dict[tuple[str, str], np.ndarray]:
    """Returns how similar the weights of heads are, over a data set.

    The cosine `sum A B / sqrt(sum A^2 sum B^2)` over all samples and pairs
    that may attend: 1 for heads that do the same. Heads that attend evenly
    are similar to each other, whatever they do beyond that.

    Args:
        model: As for `attention_weights`.
        data: As for `attention_statistics`.
        other: Another model, such as one of another seed, whose heads to
            compare with; by default those of the model itself.
        layers: Names of layers of both; all by default. They must be of the
            same tokens.

    Returns:
        Dictionary from a pair of names, of a layer of the model and of one of
        the other, to an array `(H, H')`.

    Raises:
        ValueError: As `attention_statistics` does; if layers compare other
            tokens than each other.

    Example:

    >>> from keras_synth import analysis, models
    >>> backbone = models.SynthesizerBackbone(
    ...     100, num_layers=1, num_heads=2, hidden_dim=16,
    ...     intermediate_dim=32, synthesizer="R", max_sequence_length=16)
    >>> data = {"token_ids": np.ones((8, 16), "int32"),
    ...         "padding_mask": np.ones((8, 16), "int32")}
    >>> found = analysis.head_similarity(backbone, data)
    >>> name = "encoder_layer_0/self_attention"
    >>> np.allclose(np.diag(found[name, name]), 1)
    True
    """
    products: dict[tuple[str, str], Any] = {}
    squares: list[dict[str, Any]] = [{}, {}]
    for inputs in batches(data):
        mine = _flat_weights(model, inputs, layers)
        theirs = mine
        if other is not None:
            theirs = _flat_weights(other, inputs, layers)
        for own, total in zip((mine, theirs), squares, strict=True):
            for name, x in own.items():
                square = np.einsum("hn,hn->h", x, x)
                total[name] = total.get(name, 0.0) + square
        for name, x in mine.items():
            for another, y in theirs.items():
                if x.shape[1] != y.shape[1]:
                    raise ValueError(
                        "Layers of the same tokens are expected: name them "
                        f"by `layers`. Received: {name!r} and {another!r}"
                    )
                key = name, another
                products[key] = products.get(key, 0.0) + x @ y.T
    return {
        (a, b): product
        / np.maximum(np.sqrt(np.outer(squares[0][a], squares[1][b])), 1e-30)
        for (a, b), product in products.items()
    }


def _flat_weights(model, inputs, layers):
    """Weights of a batch `(H, n)`, by name; zero where nothing counts."""
    found = {}

    def keep(seen):
        pairs = seen.query_mask[:, None, :, None] & seen.visible
        weights = np.where(pairs, seen.weights, 0).astype("float32")
        heads = weights.shape[1]
        found[seen.name] = np.swapaxes(weights, 0, 1).reshape(heads, -1)

    observe(model, inputs, keep, layers)
    return found
