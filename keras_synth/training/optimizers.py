"""`adamw`: the optimizer that most models here are trained with."""

from typing import Any

import keras

from keras_synth.training.schedules import cosine_with_warmup


def adamw(
    learning_rate: Any, weight_decay: float = 0.004, steps: int | None = None
) -> keras.optimizers.Optimizer:
    """AdamW, whose weight decay spares biases and normalisations.

    Args:
        learning_rate: Float, or a schedule such as
            `keras_synth.schedules.cosine_with_warmup`.
        weight_decay: Float.
        steps: Optional integer, all steps of a training: `learning_rate` is
            then a float, the highest rate of `cosine_with_warmup`.

    Returns:
        `keras.optimizers.AdamW`.

    Example:

    >>> optimizer = keras_synth.optimizers.adamw(1e-3, steps=1000)
    >>> float(optimizer.learning_rate)  # before the first step
    0.0
    """
    if steps is not None:
        learning_rate = cosine_with_warmup(learning_rate, steps)
    optimizer = keras.optimizers.AdamW(learning_rate, weight_decay=weight_decay)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    return optimizer
