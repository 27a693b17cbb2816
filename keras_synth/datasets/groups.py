"""Splits of examples that belong together, such as those of one dialogue."""

import numpy as np

from keras_synth.datasets.splitting import check_fraction


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


def _shuffled_pairs(rng, groups, chosen):
    pairs = [pair for number in chosen for pair in groups[number]]
    pairs = [pairs[i] for i in rng.permutation(len(pairs))]
    return tuple(map(list, zip(*pairs, strict=True)))
