"""`sample_of`: one sample of a batch."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np


def sample_of(inputs: Mapping[str, Any], sample: int = 0) -> dict[str, Any]:
    """Returns the inputs of one sample, without its padding.

    A model's weights for them have no rows and columns of padding. Each mask
    named `...padding_mask` cuts the inputs with the same prefix:
    `"encoder_padding_mask"` cuts `"encoder_token_ids"`.

    Args:
        inputs: Dictionary of arrays `(B, T, ...)`, as from a preprocessor.
        sample: Integer, index in the batch.

    Returns:
        Dictionary of NumPy arrays `(1, n, ...)`.

    Raises:
        ValueError: If an input has no mask, or `sample` is out of range.

    Example:

    >>> inputs = {"token_ids": np.array([[3, 4, 0], [5, 6, 7]]),
    ...           "padding_mask": np.array([[1, 1, 0], [1, 1, 1]])}
    >>> keras_synth.analysis.sample_of(inputs)["token_ids"]
    array([[3, 4]])
    """
    if not isinstance(inputs, Mapping):
        raise ValueError(
            "Expected a dictionary of a model's inputs. Received: "
            f"{type(inputs).__name__}"
        )
    arrays = {k: keras.ops.convert_to_numpy(x) for k, x in inputs.items()}
    end = "padding_mask"
    sides = [name.removesuffix(end) for name in arrays if name.endswith(end)]
    found = {}
    for name, x in arrays.items():
        own = [side for side in sides if name.startswith(side)]
        if not own:
            raise ValueError(
                f"{name!r} needs a mask, an input whose name is or ends in "
                f"{end!r}. Received: {[*arrays]}"
            )
        if not -len(x) <= sample < len(x):
            raise ValueError(
                f"The batch has {len(x)} samples. Received: sample={sample}"
            )
        real = np.asarray(arrays[max(own, key=len) + end][sample], bool)
        found[name] = x[sample][real][None]
    return found
