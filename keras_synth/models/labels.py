"""Labels of a classifier: integers, checked, or the names of classes."""

import keras
import numpy as np


def number_labels(labels, num_classes, class_names=None):
    """Returns integer labels for names, and anything else as it is.

    Args:
        labels: Array, tensor or sequence of integers or of class names.
        num_classes: Integer, number of classes.
        class_names: Sequence of `num_classes` strings, or `None`.

    Raises:
        ValueError: A label is not a class; some backends would not say so.
    """
    if isinstance(labels, (list, tuple, np.ndarray)) and any(
        isinstance(label, str) for label in labels
    ):
        return _numbers_of_names(labels, class_names)
    _check_integers(labels, num_classes)
    return labels


def _numbers_of_names(labels, class_names):
    if class_names is None:
        raise ValueError(
            "Labels that are strings need a classifier with class_names. "
            f"Received: y[0]={labels[0]!r}"
        )
    numbers = {name: i for i, name in enumerate(class_names)}
    for at, label in enumerate(labels):
        if label not in numbers:
            raise ValueError(
                f"Labels must be among class_names={class_names}. Give the "
                "classifier more classes, or rename the labels. Received: "
                f"y[{at}]={label!r}"
            )
    return np.array([numbers[label] for label in labels], dtype="int32")


def _check_integers(labels, num_classes):
    labels = np.asarray(keras.ops.convert_to_numpy(labels))
    if labels.dtype.kind not in "iu" or not labels.size:
        return
    least, most = labels.min(), labels.max()
    if least < 0 or most >= num_classes:
        wrong = int(least if least < 0 else most)
        at = int(np.argmax(labels.reshape(-1) == wrong))
        raise ValueError(
            f"Labels must lie from 0 to num_classes - 1 = {num_classes - 1}. "
            "Give the classifier more classes, or renumber the labels. "
            f"Received: y[{at}]={wrong}"
        )
