"""Labels as written in a file, and the integers that stand for them."""

import re

import numpy as np

# At most 18 digits: longer ones are names, not numbers.
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


def find_class_names(path, labels):
    """Returns the distinct labels in order, numeric if all are integers."""
    if _are_integers(labels):
        labels = map(int, labels)
    class_names = [str(name) for name in sorted(set(labels))]
    if len(class_names) < 2:
        raise ValueError(
            f"{path}: all rows have the label {class_names[0]!r}, but a "
            "classifier needs at least two classes. Add rows of another "
            "class, or pass label= with another column. If this is no "
            "training file, pass class_names= of the training file."
        )
    return class_names


def number_labels(path, lines, labels, class_names):
    """Returns int32 numbers of labels; `lines` tell where each one stands."""
    if isinstance(class_names, str) or len(set(class_names)) < 2:
        raise ValueError(
            "class_names must be a list of at least two different names, as "
            f"load_csv returns it. Received: {class_names!r}"
        )
    names = [str(name) for name in class_names]
    numbers = {name: i for i, name in enumerate(names)}
    if _are_integers(names):  # then 01 and +1 are 1
        numbers = {int(name): i for name, i in numbers.items()}
        labels = [int(x) if _INTEGER.fullmatch(x) else x for x in labels]
    for line, label in zip(lines, labels, strict=True):
        if label not in numbers:
            raise ValueError(
                f"{path}, line {line}: expected a label of class_names, which "
                f"are {names}. Received: {str(label)!r}. Correct the label or "
                "remove the row; if it is a class, add examples of it to the "
                "training file."
            )
    return np.array([numbers[label] for label in labels], dtype="int32")


def _are_integers(labels):
    return all(_INTEGER.fullmatch(label) for label in labels)
