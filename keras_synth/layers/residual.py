"""`Residual`: normalisation, dropout and the skip connection."""

from typing import Any

import keras

from keras_synth._backend.checks import (
    check_above_zero,
    check_boolean,
    check_rate,
)
from keras_synth._backend.layer import Layer
from keras_synth.types import Shape, Tensor

_NORMALIZATIONS = {
    "layer_normalization": keras.layers.LayerNormalization,
    "rms_normalization": keras.layers.RMSNormalization,
}


@keras.saving.register_keras_serializable(package="keras_synth")
class Residual(Layer):
    """Normalisation, dropout and skip connection around a sub-layer f.

    Post-norm, `norm(x + dropout(f(x)))`, or pre-norm,
    `x + dropout(f(norm(x)))`.

    Args:
        dropout: Float, fraction of the sub-layer's outputs to drop in training.
        layer_norm_epsilon: Float, epsilon of the normalisation.
        normalize_first: Whether it is pre-norm.
        normalization: `"layer_normalization"` or `"rms_normalization"`.
        **kwargs: Keyword arguments of `keras.layers.Layer`.

    Call arguments:
        x: Tensor `(B, T, d)`, the input of the sub-layer.
        y: Tensor `(B, T, d)`, its output.
        training: Whether to apply dropout.

    Returns:
        Tensor `(B, T, d)`.

    Example:

    >>> residual = keras_synth.layers.Residual(dropout=0.1)
    >>> sublayer = keras.layers.Dense(8)
    >>> x = np.ones((2, 5, 8), "float32")
    >>> y = sublayer(residual.before(x))
    >>> residual.after(x, y, training=True).shape
    (2, 5, 8)
    """

    def __init__(
        self,
        dropout: float = 0.0,
        layer_norm_epsilon: float = 1e-5,
        normalize_first: bool = False,
        normalization: str = "layer_normalization",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.dropout = check_rate("dropout", dropout)
        self.layer_norm_epsilon = check_above_zero(
            "layer_norm_epsilon", layer_norm_epsilon
        )
        self.normalize_first = check_boolean("normalize_first", normalize_first)
        self.normalization = normalization
        self.norm = normalization_class(normalization)(
            epsilon=self.layer_norm_epsilon,
            dtype=self.dtype_policy,
            name="norm",
        )
        self._dropout = keras.layers.Dropout(
            self.dropout, dtype=self.dtype_policy, name="dropout"
        )

    def build(self, x_shape: Shape, y_shape: Shape | None = None) -> None:
        self.norm.build(x_shape)
        self.built = True

    def before(self, x: Tensor) -> Tensor:
        """Returns the input of the sub-layer."""
        return self.norm(x) if self.normalize_first else x

    def after(
        self, x: Tensor, y: Tensor, training: bool | None = None
    ) -> Tensor:
        """Joins the sub-layer's input and output."""
        return self(x, y, training=training)

    def call(
        self, x: Tensor, y: Tensor, training: bool | None = None
    ) -> Tensor:
        # In this order: `training` can be a tracer, in a `RematScope` on JAX.
        if self.dropout and training:
            y = self._dropout(y, training=True)
        x = x + y
        return x if self.normalize_first else self.norm(x)

    def compute_output_shape(
        self, x_shape: Shape, y_shape: Shape | None = None
    ) -> Shape:
        return x_shape


def normalization_class(name):
    """Returns the Keras layer of a normalization by name, or raises."""
    if name not in _NORMALIZATIONS:
        raise ValueError(
            f"`normalization` must be one of {', '.join(_NORMALIZATIONS)}. "
            f"Received: normalization={name!r}"
        )
    return _NORMALIZATIONS[name]
