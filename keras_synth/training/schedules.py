"""`InverseSquareRoot`, the schedule of the first Transformer."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import check_above_zero, check_positive
from keras_synth.types import Tensor


@keras.saving.register_keras_serializable(package="keras_synth")
class InverseSquareRoot(keras.optimizers.schedules.LearningRateSchedule):
    """Increases linearly, then falls with the square root of the step.

    `rate(n) = peak * min(n / warmup, sqrt(warmup / n))` for step n, counted
    from 1. Vaswani et al. use `peak = (hidden_dim * warmup_steps) ** -0.5`. For
    a cosine use `keras.optimizers.schedules.CosineDecay`.

    Args:
        peak_learning_rate: Float, the highest rate, at step `warmup_steps`.
        warmup_steps: Integer, steps until then.
        name: Optional string.

    Call arguments:
        step: Integer scalar, the number of previous steps.

    Returns:
        Float scalar tensor, the learning rate.

    Example:

    >>> schedule = keras_synth.training.InverseSquareRoot(1.5e-3, 1000)
    >>> optimizer = keras.optimizers.Adam(schedule, 0.9, 0.98, 1e-9)

    References:
        - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), 5.3
    """

    def __init__(
        self,
        peak_learning_rate: float,
        warmup_steps: int,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.peak_learning_rate = check_above_zero(
            "peak_learning_rate", peak_learning_rate
        )
        self.warmup_steps = check_positive("warmup_steps", warmup_steps)
        self.name = name

    def __call__(self, step: int) -> Tensor:
        step = ops.cast(step, "float32") + 1.0
        warmup = float(self.warmup_steps)
        factor = ops.minimum(step / warmup, ops.sqrt(warmup / step))
        return self.peak_learning_rate * factor

    def get_config(self) -> dict[str, Any]:
        return {
            "peak_learning_rate": self.peak_learning_rate,
            "warmup_steps": self.warmup_steps,
            "name": self.name,
        }
