"""Labels of a classifier: class names become integers, integers are checked."""

import numpy as np

from keras_synth.models.data.texts import plain_texts
from keras_synth.training.losses import LabelSmoothedCrossentropy


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


def encode_labels(labels, count, class_names=None, name="y", loss=None):
    """Returns integer labels for names and checks numbers.

    Args:
        labels: NumPy array of integers or of class names; or of other numbers,
            such as one-hot labels.
        count: Integer, labels lie below it, or `None` for any numbers.
        class_names: Sequence of strings, or `None`.
        name: String, what errors call the labels.
        loss: What the labels are for, in any form that `compile` takes: one
            for integer labels takes no fractions, a binary one none beyond 0
            and 1.

    Raises:
        ValueError: A label is not a class; some backends would not notice.
    """
    if labels.dtype.kind in "OSTU":
        return _numbers_of_names(labels, class_names, name)
    if labels.dtype.kind == "f" and _is_sparse(loss):
        _check_each(labels, labels == np.round(labels), "be integers", name)
    known = labels.dtype.kind in "iu" or _is_sparse(loss) or is_binary(loss)
    if count is not None and known:
        wanted = f"lie from 0 to {count - 1}"
        _check_each(labels, (labels >= 0) & (labels <= count - 1), wanted, name)
    narrow = labels.dtype.kind == "f" and _is_sparse(loss)
    return labels.astype("int32") if narrow else labels


def numbered_weights(class_weight, count, class_names=None):
    """Returns `class_weight` of `keras.Model.fit` by the numbers of classes.

    Args:
        class_weight: Dictionary from classes, integers or names, to weights.
        count: Integer, integer labels lie below it, or `None` for any.
        class_names: Sequence of strings, or `None`.

    Raises:
        ValueError: A key is not a class: Keras would ignore its weight.
    """
    known = {name: number for number, name in enumerate(class_names or ())}
    weights = {known.get(key, key): x for key, x in class_weight.items()}
    for key in weights:
        if count is not None and key not in range(count):
            raise ValueError(
                "class_weight must have classes for keys: numbers from 0 to "
                f"{count - 1}, or names in class_names={class_names}. "
                f"Received: {key!r} in class_weight={class_weight}"
            )
    return weights


def weighted(class_weight, batch):
    """Returns a batch whose samples have the weights of their classes.

    Args:
        class_weight: Dictionary from numbers of classes to weights.
        batch: Tuple of x and labels, integers or one-hot.
    """
    x, y, *weights = batch
    if weights:
        raise ValueError(
            "Pass class_weight or sample_weight, not both. Received: "
            f"class_weight={class_weight} for batches with weights"
        )
    one_hot = y.ndim > 1 and y.shape[-1] > 1
    classes = y.argmax(axis=-1) if one_hot else y.reshape(-1).round()
    given = [class_weight.get(int(label), 1.0) for label in classes]
    return x, y, np.array(given, "float32")


def is_binary(loss):
    """Whether a loss, in any form that `compile` takes, has labels 0 and 1."""
    return _name_of(loss).startswith("binary")


def _is_sparse(loss):
    """Whether labels of a loss are integers."""
    smoothed = isinstance(loss, LabelSmoothedCrossentropy)
    return smoothed or _name_of(loss).startswith("sparse")


def _name_of(loss):
    name = getattr(loss, "__name__", type(loss).__name__)
    return (loss if isinstance(loss, str) else name).lower()


def _check_names_known(class_names, received):
    if class_names is None:
        raise ValueError(
            "Labels that are strings need a classifier with class_names. "
            f"Received: {received}"
        )


def _numbers_of_names(labels, class_names, name):
    _check_names_known(class_names, f"{name}[0]={labels[0]!r}")
    known = {text: number for number, text in enumerate(class_names)}
    labels = plain_texts(labels, name)
    for at, label in enumerate(labels):
        if label not in known:
            raise ValueError(
                f"Labels must be among class_names={class_names}. Give the "
                "classifier more classes, or rename the labels. Received: "
                f"{name}[{at}]={label!r}"
            )
    return np.array([known[label] for label in labels], dtype="int32")


def _check_each(labels, right, wanted, name):
    wrong = np.flatnonzero(~right)
    if len(wrong):
        raise ValueError(
            f"Labels must {wanted}. Give the classifier another num_classes, "
            "or renumber the labels. Received: "
            f"{name}[{wrong[0]}]={labels.reshape(-1)[wrong[0]].item()}"
        )
