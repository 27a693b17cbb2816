"""`LabelSmoothedCrossentropy`: cross-entropy with smoothed labels."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend import kernels
from keras_synth._backend.checks import check_rate
from keras_synth.types import Tensor


@keras.saving.register_keras_serializable(package="keras_synth")
class LabelSmoothedCrossentropy(keras.losses.Loss):
    """Cross-entropy of logits with integer labels, smoothed.

    `loss = log sum_j exp(z_j) - (1 - s) z_y - s mean_j z_j`: the cross-entropy
    with a label that has the probability `1 - s + s / V` for y and `s / V` for
    other classes. `keras.losses.CategoricalCrossentropy` has the same
    smoothing, but needs labels of V numbers each.

    Args:
        label_smoothing: Float in [0, 1), `s`.
        reduction: As for `keras.losses.Loss`; by default the weighted mean.
        **kwargs: Keyword arguments of `keras.losses.Loss`.

    Call arguments:
        y_true: Integer tensor `(...)`.
        y_pred: Tensor `(..., V)`, logits.
        sample_weight: Optional tensor `(...)`, 0 for padding.

    Returns:
        Scalar tensor, in nats per token.

    Raises:
        ValueError: If labels are one-hot.

    Example:

    >>> loss = keras_synth.training.LabelSmoothedCrossentropy(0.1)
    >>> logits = np.array([[[0.0, 4.0, 0.0], [4.0, 0.0, 0.0]]], "float32")
    >>> f"{float(loss(np.array([[1, 0]]), logits)):.3f}"
    '0.303'

    References:
        - [Szegedy et al., 2016](https://arxiv.org/abs/1512.00567), section 7
    """

    def __init__(
        self,
        label_smoothing: float = 0.0,
        reduction: str = "mean_with_sample_weight",
        name: str = "label_smoothed_crossentropy",
        **kwargs: Any,
    ) -> None:
        super().__init__(reduction=reduction, name=name, **kwargs)
        self.label_smoothing = check_rate("label_smoothing", label_smoothing)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        if len(y_true.shape) >= len(y_pred.shape):
            raise ValueError(
                "Labels must be integers, one for each row of logits. For "
                "one-hot labels use `keras.losses.CategoricalCrossentropy`. "
                f"Received: labels of shape {tuple(y_true.shape)}, logits of "
                f"shape {tuple(y_pred.shape)}"
            )
        labels = ops.cast(y_true, "int32")[..., None]
        if not kernels.FUSES_OPERATIONS:
            # One kernel, instead of a pass over all logits for each step of the
            # sum. Other backends' compilers fuse these steps.
            y_pred, loss = ops.log_softmax(y_pred, axis=-1), 0.0
        else:
            loss = ops.logsumexp(y_pred, axis=-1)
        chosen = ops.take_along_axis(y_pred, labels, axis=-1)[..., 0]
        loss = loss - (1 - self.label_smoothing) * chosen
        if self.label_smoothing:
            loss = loss - self.label_smoothing * ops.mean(y_pred, axis=-1)
        return loss

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "label_smoothing": self.label_smoothing,
        }
