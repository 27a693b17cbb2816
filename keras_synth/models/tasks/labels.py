"""The output layers and labels of classifiers."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_synth._backend.checks import check_positive, check_rate
from keras_synth.models.preprocessors.arrays import (
    as_array,
    call_numpy,
    in_graph,
)
from keras_synth.models.preprocessors.columns import decoded
from keras_synth.types import Tensor


def make_head(task: Any, arguments: Mapping[str, Any]) -> None:
    """Checks and keeps a classifier's arguments, and makes its last layers.

    Call it before KerasHub's constructor, which compiles.
    """
    num_classes = check_positive("num_classes", arguments["num_classes"])
    check_rate("dropout", arguments["dropout"])
    names = arguments["class_names"]
    if isinstance(names, (set, frozenset)):
        raise ValueError(
            "class_names must be in order, which sets are not. Pass "
            f"sorted(class_names). Received: class_names={names!r:.60}"
        )
    if names is not None:
        names = [str(x) if isinstance(x, str) else x for x in names]
    texts = {name for name in names or () if isinstance(name, str)}
    if names is not None and not (
        len(texts) == len(names) == max(num_classes, 2)
    ):
        raise ValueError(
            f"class_names must be num_classes={num_classes} different strings, "
            f"or two for a single output. Received: class_names={names!r}"
        )
    for name, value in {**arguments, "class_names": names}.items():
        setattr(task, name, value)
    task.activation = keras.activations.get(task.activation)
    options = {"dtype": task.backbone.dtype_policy}
    task.output_dropout = keras.layers.Dropout(
        task.dropout, name="output_dropout", **options
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

    JAX and TensorFlow accept labels that are not classes. With
    `num_classes=1`, labels are any numbers, or 0 and 1 for a binary loss. Keras
    checks one-hot labels, which a sparse loss does not take.
    """
    labels = np.asarray(labels)
    if labels.dtype.kind in "OSTU":
        return _numbers_of_names(labels, class_names)
    one_hot = labels.ndim > 1 and labels.shape[-1] > 1
    if one_hot and is_loss("sparse", loss):
        raise ValueError(
            "The label of an example must be the number or name of a class. "
            "Pass labels.argmax(-1) for one-hot labels, or compile with a "
            "categorical loss. Received: labels of shape "
            f"{labels.shape}"
        )
    binary = is_loss("binary", loss)
    count = 2 if binary else num_classes
    if count < 2 or (one_hot and loss is not None and not binary):
        return labels
    whole = binary or labels == np.round(labels)
    wrong = labels[~((labels >= 0) & (labels <= count - 1) & whole)]
    if len(wrong):
        raise ValueError(
            f"Labels must be classes, from 0 to {count - 1}. Use a larger "
            f"num_classes, or renumber the labels. Received: {wrong[0]}"
        )
    return labels if binary else labels.astype("int32")


def encoded_labels(task: Any, labels: Tensor) -> Tensor:
    """Returns a classifier's labels as integers, or those of other tasks.

    In a dataset of TensorFlow they can be ragged.
    """
    if labels is None or not hasattr(task, "num_classes"):
        return labels
    if not in_graph([labels]):
        return task.encode_labels(as_array(labels))
    values = getattr(labels, "flat_values", labels)
    dtype = "int32" if values.dtype == "string" else values.dtype.name
    (encoded,) = call_numpy(
        lambda x: [task.encode_labels(x).astype(dtype)],
        [values],
        [dtype],
        [values.shape],
    )
    return encoded if values is labels else labels.with_flat_values(encoded)


def weights_of_numbers(
    task: Any, class_weight: Mapping[Any, float] | None
) -> Mapping[Any, float] | None:
    """Returns the `class_weight` of a classifier with numbers as keys."""
    if class_weight is None:
        return None
    if not hasattr(class_weight, "items"):
        raise ValueError(
            "class_weight must be a dictionary with the weights of classes. "
            f"Received: class_weight={class_weight!r:.60}"
        )
    if len(task.output_shape) > 2:  # Keras has a weight for each token already
        raise ValueError(
            "`class_weight` needs one label for each example. Leave it out. "
            f"Received: class_weight of a {type(task).__name__}"
        )
    count, class_names = max(2, task.num_classes), task.class_names
    known: dict[Any, int] = {at: at for at in range(count)}
    known |= {name: at for at, name in enumerate(class_names or ())}
    found: dict[int, float] = {}
    for key, weight in class_weight.items():
        if key not in known or known[key] in found:
            raise ValueError(
                "The keys of class_weight must be different classes: numbers "
                f"from 0 to {count - 1}, or names in {class_names=}. "
                f"Received: {key!r} in {[*class_weight]}"
            )
        found[known[key]] = weight
    return found


def is_loss(kind: str, loss: Any) -> bool:
    """Whether a loss, in any form for `compile`, is "binary" or "sparse"."""
    name = getattr(loss, "__name__", type(loss).__name__)
    name = loss if isinstance(loss, str) else name
    return name.lower().startswith(kind)


def _numbers_of_names(labels, class_names):
    names = decoded(labels.ravel())
    if class_names is None:
        raise ValueError(
            "String labels need a model with class_names. Received: "
            f"{str(names[0])!r:.60}"
        )
    known = {name: at for at, name in enumerate(class_names)}
    wrong = [name for name in names if name not in known]
    if wrong:
        raise ValueError(
            f"Labels must be among class_names={list(class_names)}. Add "
            "classes to the model, or rename the labels. Received: "
            f"{str(wrong[0])!r:.60}"
        )
    return np.array([known[x] for x in names], "int32").reshape(labels.shape)
