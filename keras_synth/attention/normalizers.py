"""Normalizers: functions from logits to attention weights."""

from typing import Any, ClassVar

import keras
from keras import ops

from keras_synth.attention.softmax import forbid, softmax, softmax1
from keras_synth.registry import Entry, Registry
from keras_synth.types import Identifier, Tensor

__all__ = ["Normalizer", "ReLU", "Sigmoid", "Softmax", "Softmax1", "get"]


class Normalizer:
    """Base class: turns the logits of a row into weights.

    `n` is the number of keys that remain visible to the row after padding,
    patterns and masks. Rows without visible keys have zero weights.

    Attributes:
        name: String, by default the name of the class.
        counts: Boolean, whether weights depend on `n`.
        elementwise: Boolean, whether each weight depends only on its logit and
            `n`.
        sums: Boolean, whether weights are exponentials of the logits, divided
            by their sum over the row. If neither `elementwise` nor `sums`, rows
            are computed as a whole.
        sink: Boolean, whether that sum includes an additional logit, which is
            zero and has no value.

    Example:

    >>> class Squared(keras_synth.mixers.normalizers.Normalizer):
    ...     name = "squared"
    ...     counts = elementwise = True
    ...
    ...     def weights(self, logits, count=None):
    ...         return keras.ops.square(keras.ops.relu(logits)) / count
    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     4, 16, synthesizer="V", normalizer=Squared())
    >>> layer(keras.random.normal((2, 10, 64))).shape
    (2, 10, 64)
    """

    name: ClassVar[str] = ""
    counts: ClassVar[bool] = False
    elementwise: ClassVar[bool] = False
    sums: ClassVar[bool] = False
    sink: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = vars(cls)
        cls.name = own.get("name", cls.__name__)
        if "weights" in own:  # another function than that of its base
            if "sums" not in own:
                cls.sums = cls.sink = False
            cls.elementwise = own.get("elementwise", False)

    def weights(self, logits: Tensor, count: Tensor | None = None) -> Tensor:
        """Returns the weights.

        Args:
            logits: Float32 tensor `(..., T, S)`, `FORBIDDEN` for keys that are
                not visible.
            count: Float32 tensor `(..., T or 1, 1)`, `n`, at least 1. Required
                if the normalizer `counts`.

        Returns:
            Float32 tensor like the logits, zero where forbidden. Rows without
            visible keys can have any finite values.
        """
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Normalizer":
        return cls(**config)

    def serialized(self) -> Any:
        """Returns its name, or its config if the name is not registered."""
        entry = NORMALIZERS.find(self.name)
        if entry and entry.cls is type(self) and not self.get_config():
            return self.name
        return keras.saving.serialize_keras_object(self)

    def __eq__(self, other):
        return (
            type(self) is type(other)
            and self.get_config() == other.get_config()
        )

    def __hash__(self):
        return hash(type(self))

    def __repr__(self):
        return f"<{type(self).__name__} {self.name!r}>"


@keras.saving.register_keras_serializable(package="keras_synth")
class Softmax(Normalizer):
    """`exp(s_j) / sum_i exp(s_i)`.

    Example:

    >>> softmax = keras_synth.mixers.normalizers.Softmax()
    >>> keras.ops.convert_to_numpy(softmax.weights(keras.ops.zeros((1, 4))))
    array([[0.25, 0.25, 0.25, 0.25]], dtype=float32)

    References:
        - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762)
    """

    name = "softmax"
    sums = True

    def weights(self, logits: Tensor, count: Tensor | None = None) -> Tensor:
        return softmax(logits)


@keras.saving.register_keras_serializable(package="keras_synth")
class Softmax1(Softmax):
    """`exp(s_j) / (1 + sum_i exp(s_i))`: a row can have little weight.

    Example:

    >>> softmax1 = keras_synth.mixers.normalizers.Softmax1()
    >>> keras.ops.convert_to_numpy(softmax1.weights(keras.ops.zeros((1, 3))))
    array([[0.25, 0.25, 0.25]], dtype=float32)

    References:
        - [Miller, 2023](https://www.evanmiller.org/attention-is-off-by-one.html)
        - [Xiao et al., 2024](https://arxiv.org/abs/2309.17453), "zero sink".
    """

    name = "softmax1"
    sums = sink = True

    def weights(self, logits: Tensor, count: Tensor | None = None) -> Tensor:
        return softmax1(logits)[0]


@keras.saving.register_keras_serializable(package="keras_synth")
class ReLU(Normalizer):
    """`relu(s_j) / n`.

    Example:

    >>> relu = keras_synth.mixers.normalizers.ReLU()
    >>> logits = keras.ops.convert_to_tensor([[3.0, -1.0]])
    >>> keras.ops.convert_to_numpy(relu.weights(logits, count=2.0))
    array([[1.5, 0. ]], dtype=float32)

    References:
        - [Wortsman et al., 2023](https://arxiv.org/abs/2309.08586)
    """

    name = "relu"
    counts = True
    elementwise = True

    def weights(self, logits: Tensor, count: Tensor | None = None) -> Tensor:
        return ops.relu(logits) / count


@keras.saving.register_keras_serializable(package="keras_synth")
class Sigmoid(Normalizer):
    """`sigmoid(s_j - log n)`.

    Example:

    >>> sigmoid = keras_synth.mixers.normalizers.Sigmoid()
    >>> logits, n = keras.ops.zeros((1, 2)), keras.ops.ones((1, 1))
    >>> keras.ops.convert_to_numpy(sigmoid.weights(logits, n))
    array([[0.5, 0.5]], dtype=float32)

    References:
        - [Ramapuram et al., 2024](https://arxiv.org/abs/2409.04431)
    """

    name = "sigmoid"
    counts = True
    elementwise = True

    def weights(self, logits: Tensor, count: Tensor | None = None) -> Tensor:
        return ops.sigmoid(logits - ops.log(count))


def normalized(normalizer, scores, allowed, count=None):
    """Returns the weights of scores, zero where `allowed` is False.

    Float32 scores are `(..., T, S)`; `count` is that of `Normalizer.weights`.
    """
    weights = normalizer.weights(forbid(scores, allowed), count)
    if allowed is None or normalizer.elementwise:
        return weights
    # A row that sees nothing can have any weights.
    return ops.where(allowed, weights, 0.0)


SOFTMAX = Softmax()
NORMALIZERS = Registry("normalizer", Normalizer)
NORMALIZERS.add(
    Entry("softmax", Softmax),
    Entry("relu", ReLU),
    Entry("sigmoid", Sigmoid),
    Entry("softmax1", Softmax1),
)


def get(identifier: Identifier) -> Normalizer:
    """Returns the normalizer of an object, a name or a config.

    Args:
        identifier: `Normalizer`, `"softmax"`, `"relu"`, `"sigmoid"`,
            `"softmax1"`, or the config of a registered class.

    Raises:
        ValueError: If the identifier is unknown.

    Example:

    >>> from keras_synth.mixers import normalizers
    >>> normalizers.get("softmax1")
    <Softmax1 'softmax1'>
    """
    (normalizer,) = NORMALIZERS.get(identifier)
    return normalizer
