"""Labels of a classifier: class names become integers, integers are checked."""

import numpy as np
from keras.utils import pack_x_y_sample_weight, unpack_x_y_sample_weight

from keras_synth.models.texts import plain_texts
from keras_synth.models.tf_data import (
    is_tensorflow_dataset,
    label_type,
    map_labels,
)


def check_class_names(names, num_classes):
    """Raises unless there is one name for each class, two for one output."""
    if names is None:
        return
    texts = [name for name in names if isinstance(name, str)]
    if len({*texts}) != max(num_classes, 2) or len(texts) != len(names):
        raise ValueError(
            "class_names must be different strings, one for each of "
            f"num_classes={num_classes}, or two for a single output. "
            f"Received: class_names={names!r}"
        )


def encode_labels(labels, count, class_names=None, name="y"):
    """Returns integer labels for names, and anything else as it is.

    Args:
        labels: NumPy array of integers or of class names; of other numbers,
            such as one-hot labels, they are not checked.
        count: Integer, integer labels lie below it, or `None` for any.
        class_names: Sequence of strings, or `None`.
        name: String, what errors call the labels.

    Raises:
        ValueError: A label is not a class; some backends would not notice.
    """
    if labels.dtype.kind in "OSTU":
        return _numbers_of_names(labels, class_names, name)
    if count is not None and labels.dtype.kind in "iu" and labels.size:
        _check_range(labels, count, name)
    return labels


def encode_dataset_labels(dataset, count, class_names=None):
    """Does the same for the labels of a dataset, batch by batch.

    Args:
        dataset: A `tf.data.Dataset`, or a dataset of Grain.
        count: As in `encode_labels`.
        class_names: As in `encode_labels`.

    Raises:
        ValueError: Labels are names, and there are no `class_names`. A label
            that is not a class is met when its batch is read: a ValueError
            from Grain's, and from TensorFlow's `InvalidArgumentError`.
    """
    if is_tensorflow_dataset(dataset):
        kind = label_type(dataset)
        if kind == "string":
            _check_names_known(class_names, "strings")
        if kind == "string" or (kind == "integer" and count is not None):
            return map_labels(dataset, count, class_names)
        return dataset

    def encode(batch):
        x, y, sample_weight = unpack_x_y_sample_weight(batch)
        if y is not None:
            y = encode_labels(np.asarray(y), count, class_names)
        return pack_x_y_sample_weight(x, y, sample_weight)

    return dataset.map(encode)


def is_binary(loss):
    """Whether a loss, in any form that `compile` takes, has labels 0 and 1."""
    name = getattr(loss, "__name__", type(loss).__name__)
    name = loss if isinstance(loss, str) else name
    return name.lower().startswith("binary")


def _check_names_known(class_names, received):
    if class_names is None:
        raise ValueError(
            "Labels that are strings need a classifier with class_names. "
            f"Received: {received}"
        )


def _numbers_of_names(labels, class_names, name):
    _check_names_known(class_names, f"{name}[0]={labels[0]!r}")
    numbers = {text: number for number, text in enumerate(class_names)}
    labels = plain_texts(labels, name)
    for at, label in enumerate(labels):
        if label not in numbers:
            raise ValueError(
                f"Labels must be among class_names={class_names}. Give the "
                "classifier more classes, or rename the labels. Received: "
                f"{name}[{at}]={label!r}"
            )
    return np.array([numbers[label] for label in labels], dtype="int32")


def _check_range(labels, count, name):
    least, most = labels.min(), labels.max()
    if least < 0 or most >= count:
        wrong = int(least if least < 0 else most)
        at = int(np.argmax(labels.reshape(-1) == wrong))
        raise ValueError(
            f"Labels must lie from 0 to {count - 1}. Give the classifier "
            "another num_classes, or renumber the labels. Received: "
            f"{name}[{at}]={wrong}"
        )
