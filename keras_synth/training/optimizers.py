"""`adamw`: AdamW that decays only matrices."""

from typing import Any

import keras

# Weights of biases, layer and RMS normalizations, and mixtures.
NOT_DECAYED = (r"bias|^b(_?\w)?$", "gamma", "beta", "scale", "alphas")


@keras.saving.register_keras_serializable(package="keras_synth")
class AdamW(keras.optimizers.AdamW):
    """Keras does not save what is excluded from weight decay (3.15).

    TensorFlow raises an error for names that begin with an underscore.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.exclude_from_weight_decay(var_names=list(NOT_DECAYED))


def adamw(
    learning_rate: Any, weight_decay: float = 0.004, **kwargs: Any
) -> keras.optimizers.Optimizer:
    """AdamW without weight decay of biases, normalizations and alphas.

    Args:
        learning_rate: Float, or a schedule.
        weight_decay: Float.
        **kwargs: Other arguments of `keras.optimizers.AdamW`.

    Returns:
        `keras.optimizers.AdamW`.

    Example:

    >>> optimizer = keras_synth.training.adamw(1e-3, weight_decay=0.01)
    """
    return AdamW(learning_rate, weight_decay=weight_decay, **kwargs)
