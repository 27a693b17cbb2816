"""A training and a validation set from one list of labelled texts."""

from typing import Any

import numpy as np

from keras_synth.datasets.files import lists


def train_validation_split(
    texts: Any, labels: Any, validation_fraction: float = 0.1, seed: int = 0
) -> tuple[Any, ...]:
    """Splits examples in two, each class in the same proportion.

    Copies of a text, or of a pair of texts, always stay on one side, whatever
    their labels, so that validation never asks for one seen in training. Every
    class is on both sides. Where copies do not fit, a class gives somewhat
    fewer validation examples than asked for.

    Labels of float are scores, not classes: all examples are drawn from alike.

    Args:
        texts: Sequence of strings, or for pairs of texts a tuple of two such
            sequences of the same length.
        labels: Sequence or 1D array of the same length, integers or strings,
            or of a float dtype.
        validation_fraction: Float in (0, 1), the share of the examples.
        seed: Integer, not negative. The same seed gives the same split.

    Returns:
        `(train_texts, train_labels), (val_texts, val_labels)`, both shuffled:
        texts are lists, or tuples of two lists, labels arrays of the dtype
        received.

    Raises:
        TypeError: `texts` is neither a sequence of strings nor two of them.
        ValueError: Lengths differ, the fraction is out of range, or a class,
            or the whole where labels are scores, has fewer than two distinct
            texts.

    Example:

    ```python
    texts, labels = generated_reviews(1000)
    train, validation = train_validation_split(texts, labels, 0.2)
    len(train[0]), len(validation[0])  # 800, 200
    ```
    """
    check_fraction("validation_fraction", validation_fraction)
    are_pairs = (
        isinstance(texts, tuple)
        and len(texts) == 2
        and not any(isinstance(side, str) for side in texts)
    )
    sides, labels = texts if are_pairs else (texts,), np.asarray(labels)
    for side in sides:
        _check_examples(side, labels)
    examples = list(zip(*sides, strict=True))
    rng = np.random.default_rng(seed)
    chosen: np.ndarray = np.zeros(len(examples), dtype=bool)
    for name, groups in _copies_by_class(examples, labels).items():
        chosen[_draw_groups(rng, name, groups, validation_fraction)] = True
    order = rng.permutation(len(examples))
    parts = []
    for rows in (order[~chosen[order]], order[chosen[order]]):
        columns = lists(examples[i] for i in rows)
        parts.append((columns if are_pairs else columns[0], labels[rows]))
    return tuple(parts)


def split_groups(groups, fractions, seed, kind):
    """Splits pairs of texts, those of a group always on one side.

    Args:
        groups: List of lists of pairs of strings.
        fractions: Dictionary, name of an argument -> float in (0, 1), the
            share of the groups on each side but the first.
        seed: Integer, not negative.
        kind: String, what to call a group in an error.

    Returns:
        List of sides, the rest of the groups first, then one per fraction.
        Each is a tuple of two lists, the first and the second texts of its
        pairs, shuffled.
    """
    for name, fraction in fractions.items():
        check_fraction(name, fraction)
    sizes = [max(1, round(f * len(groups))) for f in fractions.values()]
    if sum(sizes) >= len(groups):
        raise ValueError(
            f"{' and '.join(fractions)} must leave some of the {kind} for "
            "training, and every side needs one. Pass smaller fractions, or "
            f"more {kind}. Received: {len(groups)} {kind} and {fractions}"
        )
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(groups))
    *sides, rest = np.split(order, np.cumsum(sizes))
    shuffled = []
    for side in (rest, *sides):
        pairs = [pair for number in side for pair in groups[number]]
        shuffled.append(lists(pairs[i] for i in rng.permutation(len(pairs))))
    return shuffled


def check_fraction(name, value):
    """Raises unless `value` lies between 0 and 1, both excluded."""
    if not 0 < value < 1:
        raise ValueError(
            f"{name} must lie between 0 and 1, both excluded. Received: "
            f"{value!r}"
        )


def _check_examples(texts, labels):
    if isinstance(texts, str) or not all(isinstance(t, str) for t in texts):
        raise TypeError(
            "texts must be a sequence of strings. Received: "
            f"{type(texts).__name__}"
        )
    if not len(texts) or labels.shape != (len(texts),):
        raise ValueError(
            "texts and labels must have the same length, at least 1, and one "
            "label per text. Data that come split, as from the loaders, are "
            "(texts, labels), (test_texts, test_labels). Received: "
            f"{len(texts)} texts and labels of shape {labels.shape}"
        )


def _copies_by_class(texts, labels):
    """Returns class -> lists of indices, one list per distinct text.

    Scores make a single class, `None`.
    """
    copies = {}
    for index, text in enumerate(texts):
        copies.setdefault(text, []).append(index)
    is_score = labels.dtype.kind == "f"
    names = [None] * len(labels) if is_score else labels.tolist()
    groups = {name: [] for name in sorted(set(names))}
    for indices in copies.values():
        # Copies with different labels count for the class of the first one.
        groups[names[indices[0]]].append(indices)
    return groups


def _draw_groups(rng, name, groups, fraction):
    """Returns the indices of about `fraction` of a class, in whole groups."""
    if len(groups) < 2:
        kind = "The set" if name is None else f"Class {name!r}"
        more = "" if name is None else ", or drop it"
        raise ValueError(
            f"{kind} has {len(groups)} distinct texts, but needs two: one to "
            f"train on, one to validate on. Add examples{more}."
        )
    count = sum(map(len, groups))
    target = min(max(1, round(fraction * count)), count - 1)
    drawn = []
    for i in rng.permutation(len(groups)):
        if len(drawn) + len(groups[i]) <= target:
            drawn += groups[i]
    # If every text has more copies than fit, the least repeated one is drawn.
    return drawn or min(groups, key=len)
