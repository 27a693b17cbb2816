"""A training and a validation set from one list of labelled texts."""

import numpy as np


def train_validation_split(texts, labels, validation_fraction=0.1, seed=0):
    """Splits examples in two, each class in the same proportion.

    Copies of a text, or of a pair of texts, always stay on one side, whatever
    their labels, so that validation never asks for one seen in training. Every
    class is on both sides. Where copies do not fit, a class gives somewhat
    fewer validation examples than asked for.

    Args:
        texts: Sequence of strings, or for pairs of texts a tuple of two such
            sequences of the same length.
        labels: Sequence or 1D array of the same length, integers or strings.
        validation_fraction: Float in (0, 1), the share of the examples.
        seed: Integer, not negative. The same seed gives the same split.

    Returns:
        `(train_texts, train_labels), (val_texts, val_labels)`, both shuffled:
        texts are lists, or tuples of two lists, labels arrays of the dtype
        received.

    Raises:
        TypeError: `texts` is neither a sequence of strings nor two of them.
        ValueError: Lengths differ, the fraction is out of range, or a class
            has fewer than two distinct texts.

    Example:

    ```python
    texts, labels = generated_reviews(1000)
    train, validation = train_validation_split(texts, labels, 0.2)
    len(train[0]), len(validation[0])  # 800, 200
    ```
    """
    check_fraction("validation_fraction", validation_fraction)
    if _are_pairs(texts):
        pairs, labels = _checked_pairs(*texts, labels)
        sides = _split(pairs, labels, validation_fraction, seed)
        return tuple(
            (tuple(map(list, zip(*pairs, strict=True))), labels)
            for pairs, labels in sides
        )
    texts, labels = _checked_examples(texts, labels)
    return _split(texts, labels, validation_fraction, seed)


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
    return [_shuffled_pairs(rng, groups, side) for side in (rest, *sides)]


def check_fraction(name, value):
    """Raises unless `value` lies between 0 and 1, both excluded."""
    if not 0 < value < 1:
        raise ValueError(
            f"{name} must lie between 0 and 1, both excluded. Received: "
            f"{value!r}"
        )


def _are_pairs(texts):
    """Whether this is a tuple of two sequences, and not of two strings."""
    return (
        isinstance(texts, tuple)
        and len(texts) == 2
        and not any(isinstance(side, str) for side in texts)
    )


def _checked_pairs(first, second, labels):
    first, labels = _checked_examples(first, labels)
    second, _ = _checked_examples(second, labels)
    return list(zip(first, second, strict=True)), labels


def _split(texts, labels, fraction, seed):
    rng = np.random.default_rng(seed)
    chosen = np.zeros(len(texts), dtype=bool)
    for name, groups in _copies_by_class(texts, labels).items():
        chosen[_draw_groups(rng, name, groups, fraction)] = True
    order = rng.permutation(len(texts))
    sides = order[~chosen[order]], order[chosen[order]]
    return tuple(([texts[i] for i in side], labels[side]) for side in sides)


def _checked_examples(texts, labels):
    if isinstance(texts, str) or not all(isinstance(t, str) for t in texts):
        raise TypeError(
            "texts must be a sequence of strings. Received: "
            f"{type(texts).__name__}"
        )
    texts, labels = list(texts), np.asarray(labels)
    if not texts or labels.shape != (len(texts),):
        raise ValueError(
            "texts and labels must have the same length, at least 1, and one "
            f"label per text. Received: {len(texts)} texts and labels of "
            f"shape {labels.shape}"
        )
    return texts, labels


def _copies_by_class(texts, labels):
    """Returns class -> lists of indices, one list per distinct text."""
    copies = {}
    for index, text in enumerate(texts):
        copies.setdefault(text, []).append(index)
    names = labels.tolist()
    groups = {name: [] for name in sorted(set(names))}
    for indices in copies.values():
        # Copies with different labels count for the class of the first one.
        groups[names[indices[0]]].append(indices)
    return groups


def _draw_groups(rng, name, groups, fraction):
    """Returns the indices of about `fraction` of a class, in whole groups."""
    if len(groups) < 2:
        raise ValueError(
            f"Class {name!r} has {len(groups)} distinct texts, but needs two: "
            "one to train on, one to validate on. Add examples, or drop it."
        )
    count = sum(map(len, groups))
    target = min(max(1, round(fraction * count)), count - 1)
    drawn = []
    for i in rng.permutation(len(groups)):
        if len(drawn) + len(groups[i]) <= target:
            drawn += groups[i]
    # If every text has more copies than fit, the least repeated one is drawn.
    return drawn or min(groups, key=len)


def _shuffled_pairs(rng, groups, chosen):
    pairs = [pair for number in chosen for pair in groups[number]]
    pairs = [pairs[i] for i in rng.permutation(len(pairs))]
    return tuple(map(list, zip(*pairs, strict=True)))
