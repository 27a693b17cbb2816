"""The output layers and labels of classifiers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_synth._backend.checks import check_rate
from keras_synth.models.preprocessors.arrays import (
    as_array,
    call_numpy,
    in_graph,
)
from keras_synth.models.preprocessors.checks import check_fits
from keras_synth.types import Identifier, Tensor


def make_head(
    task: Any,
    backbone: keras.Model,
    preprocessor: Any,
    num_classes: int,
    activation: Identifier,
    dropout: float,
    class_names: Sequence[str] | None,
) -> None:
    """Checks and keeps the arguments of a classifier, and makes its last
    layers.

    Call it before KerasHub's constructor, which compiles.
    """
    check_rate("dropout", dropout)
    names = class_names or []
    texts = {name for name in names if isinstance(name, str)}
    if class_names is not None and not (
        len(texts) == len(names) == max(num_classes, 2)
    ):
        raise ValueError(
            f"class_names must be num_classes={num_classes} different strings, "
            f"or two for a single output. Received: class_names={names!r}"
        )
    check_fits(preprocessor, backbone)
    task.backbone, task.preprocessor = backbone, preprocessor
    task.num_classes, task.dropout = num_classes, dropout
    task.activation = keras.activations.get(activation)
    task.class_names = None if class_names is None else [*class_names]
    options = {"dtype": backbone.dtype_policy}
    task.output_dropout = keras.layers.Dropout(
        dropout, name="output_dropout", **options
    )
    task.output_dense = keras.layers.Dense(
        num_classes, activation=task.activation, name="logits", **options
    )


def encode_labels(
    labels: Tensor,
    num_classes: int,
    class_names: Sequence[str] | None = None,
    loss: Any = None,
) -> Tensor:
    """Returns integers for names of classes, and checks numbers.

    JAX and TensorFlow accept labels that are not classes, and some losses
    accept labels of another shape.

    Args:
        labels: Array of integers, one-hot rows or names of classes.
        num_classes: Integer; labels are smaller. 1 allows any numbers, or 0 and
            1 with a binary loss.
        class_names: Sequence of strings, or `None`.
        loss: The loss, in any form that `compile` accepts.

    Raises:
        ValueError: If a label is not a class, or labels have the wrong form for
            the loss.
    """
    labels = np.asarray(labels)
    if labels.dtype.kind in "OSTU":
        return _numbers_of_names(labels, class_names)
    kind = _name_of(loss)
    columns = labels.shape[1] if labels.ndim > 1 else 1
    if kind.startswith(("sparse", "labelsmoothed")) and columns > 1:
        raise ValueError(
            f"The loss {kind} needs integers, one for each example. For "
            "one-hot labels compile with "
            "keras.losses.CategoricalCrossentropy(from_logits=True). Received: "
            f"labels of shape {labels.shape}"
        )
    if kind.startswith("categorical") and columns != num_classes:
        raise ValueError(
            f"The loss {kind} needs one-hot labels of shape (N, "
            f"{num_classes}). For integers compile with "
            "keras.losses.SparseCategoricalCrossentropy(from_logits=True). "
            f"Received: labels of shape {labels.shape}"
        )
    count = 2 if is_binary(loss) else num_classes
    if kind.startswith("categorical") or count < 2:
        return labels
    whole = labels == np.round(labels) if not is_binary(loss) else True
    wrong = labels[~((labels >= 0) & (labels < count) & whole)]
    if len(wrong):
        raise ValueError(
            f"Labels must be classes, from 0 to {count - 1}. Use a larger "
            f"num_classes, or renumber the labels. Received: {wrong[0]}"
        )
    return labels if is_binary(loss) else labels.astype("int32")


def apply_to_labels(encode: Callable[[Any], Tensor], labels: Tensor) -> Tensor:
    """Encodes labels, which can be ragged in a dataset of TensorFlow.

    `encode` maps an array, or a list of rows, to an array.
    """
    if not in_graph([labels]):
        return encode(as_array(labels))
    values = getattr(labels, "flat_values", labels)
    dtype = "int32" if values.dtype == "string" else values.dtype.name
    (encoded,) = call_numpy(
        lambda x: [encode(x).astype(dtype)], [values], [dtype], [values.shape]
    )
    return encoded if values is labels else labels.with_flat_values(encoded)


def weights_of_numbers(
    class_weight: Mapping[Any, float], class_names: Sequence[str] | None
) -> dict[Any, float]:
    """Returns the `class_weight` of `fit` with numbers as keys."""
    known = {name: at for at, name in enumerate(class_names or ())}
    for key in class_weight:
        if isinstance(key, str) and key not in known:
            raise ValueError(
                "The keys of class_weight must be numbers of classes, or names "
                f"in class_names={class_names}. Received: {key!r}"
            )
    return {known.get(key, key): x for key, x in class_weight.items()}


def is_binary(loss: Any) -> bool:
    """Whether a loss, in any form for `compile`, is for labels 0 and 1."""
    return _name_of(loss).startswith("binary")


def _name_of(loss):
    name = getattr(loss, "__name__", type(loss).__name__)
    return (loss if isinstance(loss, str) else name).lower()


def _numbers_of_names(labels, class_names):
    if class_names is None:
        raise ValueError(
            "String labels need a model with class_names. Received: "
            f"{_text(labels.reshape(-1)[0])!r:.60}"
        )
    known = {name: at for at, name in enumerate(class_names)}
    known |= {name.encode(): at for name, at in known.items()}
    try:
        numbers = [known[label] for label in labels.reshape(-1)]
    except KeyError as error:
        raise ValueError(
            f"Labels must be among class_names={list(class_names)}. Add "
            "classes to the model, or rename the labels. Received: "
            f"{_text(error.args[0])!r:.60}"
        ) from None
    return np.array(numbers, "int32").reshape(labels.shape)


def _text(label):
    """A label as a Python string."""
    return label.decode() if isinstance(label, bytes) else str(label)
