"""Learning rates that rise, then fall: along a cosine, or a square root."""

from typing import Any, Self

import keras
from keras import ops

from keras_synth._backend.checks import check_positive
from keras_synth.types import Tensor


def cosine_with_warmup(
    peak_learning_rate: float, steps: int, warmup_steps: int = 0
) -> Any:
    """Grows linearly from 0, then falls along a cosine to 0.

    Args:
        peak_learning_rate: Float, the highest rate.
        steps: Integer, all steps of a training; after the last the rate is 0.
        warmup_steps: Integer, steps until the highest rate, at most half of
            all. 0 takes a tenth.

    Returns:
        `keras.optimizers.schedules.CosineDecay`.

    Example:

    >>> schedule = keras_synth.schedules.cosine_with_warmup(1e-3, 1000)
    >>> [round(float(schedule(step)), 6) for step in (100, 1000)]
    [0.001, 0.0]
    """
    warmup = warmup_of(steps, warmup_steps)
    return keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=0.0,
        decay_steps=max(1, steps - warmup),
        warmup_target=peak_learning_rate,
        warmup_steps=warmup,
    )


def warmup_of(steps: int, warmup_steps: int = 0) -> int:
    """Steps of the warm-up: those given or a tenth, at most half, never 0."""
    return max(1, min(warmup_steps or steps // 10, steps // 2))


@keras.saving.register_keras_serializable(package="keras_synth")
class InverseSquareRootDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Grows linearly, then falls with the square root of the step.

    `rate(n) = peak * min(n / warmup, sqrt(warmup / n))`, n counting steps from
    1: the schedule that is called after Noam Shazeer.

    Args:
        peak_learning_rate: Float, the highest rate, at step `warmup_steps`.
        warmup_steps: Integer, steps until then.
        name: Optional string.

    Call arguments:
        step: Integer scalar, the number of steps that were made.

    Returns:
        Float scalar tensor, the learning rate.

    Example:

    >>> schedule = keras_synth.schedules.InverseSquareRootDecay(1.5e-3, 1000)
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
        if not peak_learning_rate > 0:
            raise ValueError(
                "`peak_learning_rate` must be positive. Received: "
                f"peak_learning_rate={peak_learning_rate}"
            )
        self.peak_learning_rate = peak_learning_rate
        self.warmup_steps = check_positive("warmup_steps", warmup_steps)
        self.name = name

    @classmethod
    def of_width(
        cls, hidden_dim: int, warmup_steps: int = 4000, factor: float = 1.0
    ) -> Self:
        """The rate as Vaswani et al. state it.

        `factor * d^-0.5 * min(n^-0.5, n * warmup^-1.5)`.

        Args:
            hidden_dim: Integer, model width `d`.
            warmup_steps: Integer, steps until the highest rate.
            factor: Float.
        """
        return cls(factor * (hidden_dim * warmup_steps) ** -0.5, warmup_steps)

    def __call__(self, step: int) -> Tensor:
        step = ops.cast(step, "float32") + 1.0
        warmup = float(self.warmup_steps)
        share = ops.minimum(step / warmup, ops.sqrt(warmup / step))
        return self.peak_learning_rate * share

    def get_config(self) -> dict[str, Any]:
        return {
            "peak_learning_rate": self.peak_learning_rate,
            "warmup_steps": self.warmup_steps,
            "name": self.name,
        }
