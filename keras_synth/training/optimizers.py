"""`adamw`: the optimizer that most models here are trained with."""

from typing import Any

import keras


def adamw(
    learning_rate: Any, weight_decay: float = 0.004
) -> keras.optimizers.Optimizer:
    """AdamW, whose weight decay spares biases and normalisations.

    Args:
        learning_rate: Float, or a schedule such as
            `keras_synth.schedules.cosine_with_warmup`.
        weight_decay: Float.

    Returns:
        `keras.optimizers.AdamW`.
    """
    optimizer = keras.optimizers.AdamW(learning_rate, weight_decay=weight_decay)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    return optimizer
