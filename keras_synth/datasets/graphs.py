"""Graphs: masks for attention, and generators with labels."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_synth.datasets.words import (
    check_integers,
    check_rates,
    shuffled,
)
from keras_synth.types import Tensor

GREY, COLORS = 0, (1, 2, 3, 4)  # the first two are those that are asked for


def graph_masks(
    adjacencies: Sequence[Tensor],
    length: int | None = None,
    self_loops: bool = True,
) -> Any:
    """Makes attention masks of graphs: a node sees its neighbours and itself.

    One layer of attention is then one round of messages between neighbours,
    and `L` layers reach `L` steps.

    Args:
        adjacencies: Sequence of `B` boolean arrays `(n_i, n_i)`. Where `(i,
            j)` is True, node i sees node j; an undirected graph has `(j, i)`,
            too.
        length: Integer, the nodes `T` of the result; by default those of the
            largest graph.
        self_loops: Whether each node sees itself. Otherwise a node without
            neighbours has a context of zero.

    Returns:
        Boolean array `(B, T, T)`, an `attention_mask`. Padded nodes see no
        node, and none sees them.

    Raises:
        ValueError: If an adjacency is not boolean, not square, or larger than
            `length`.

    Example:

    >>> path = np.eye(3, k=1, dtype=bool) | np.eye(3, k=-1, dtype=bool)
    >>> mask = keras_synth.datasets.graph_masks([path], length=4)
    >>> mask[0].astype(int)
    array([[1, 1, 0, 0],
           [1, 1, 1, 0],
           [0, 1, 1, 0],
           [0, 0, 0, 0]])

    References:
        - [Velickovic et al., 2018](https://arxiv.org/abs/1710.10903), graph
          attention networks.
    """
    arrays = [np.asarray(x) for x in adjacencies]
    nodes = max(map(len, arrays), default=1) if length is None else length
    for i, x in enumerate(arrays):
        if x.shape != 2 * (len(x),) or x.dtype != bool or len(x) > nodes:
            raise ValueError(
                "An adjacency must be a boolean array (n, n), n at most "
                f"{nodes}; `adjacency.toarray() != 0` makes one of a sparse "
                f"matrix. Received: graph {i} of shape {x.shape} and dtype "
                f"{x.dtype}"
            )
    mask: np.ndarray = np.zeros((len(arrays), nodes, nodes), bool)
    for row, x in zip(mask, arrays, strict=True):
        row[: len(x), : len(x)] = x | (np.eye(len(x), dtype=bool) & self_loops)
    return mask


def generated_graphs(
    num_examples: int, seed: int = 0, max_extra_nodes: int = 6
) -> tuple[Any, ...]:
    """Draws graphs of coloured nodes and asks who is near to whom.

    Each graph has four nodes of the colours 1 to 4, one of each; all others
    are grey, 0. Two grey nodes stand between 1 and 2, and two others between
    3 and 4: label 1. Or they stand between 1 and 4, and between 3 and 2:
    label 0. More grey nodes hang about.

    Graphs are made in pairs of opposite labels that differ in one exchange:
    edges `a - b` and `c - d` of four grey nodes become `a - d` and `c - b`.
    Both have the same nodes with the same neighbours, as far as colours tell,
    so counts of neighbourhoods, or sums over one round of messages, are right
    on one of the two. After two rounds a grey node beside colour 1 knows which
    colour its grey neighbour is beside, and that is the label.

    Args:
        num_examples: Integer, number of graphs.
        seed: Integer, not negative. The same seed gives the same graphs.
        max_extra_nodes: Integer, the most nodes besides those 8.

    Returns:
        `((colors, adjacencies), labels)`, shuffled: lists of int32 arrays
        `(n,)` and of boolean ones `(n, n)`, symmetric, and an int32 array.
        Both labels are equally frequent; of an odd number, one more is 0.

    Raises:
        ValueError: If an argument is out of range, or no integer.

    Example:

    >>> (colors, adjacencies), labels = keras_synth.datasets.generated_graphs(
    ...     4, seed=1)
    >>> len(colors), len(adjacencies), labels.shape
    (4, 4, (4,))
    >>> sorted(colors[0].tolist())[-4:]
    [1, 2, 3, 4]
    """
    check_integers(
        num_examples=(num_examples, 1), max_extra_nodes=(max_extra_nodes, 1)
    )
    rng = np.random.default_rng(seed)
    examples: list[Any] = []
    while len(examples) < num_examples:
        examples += _two_graphs(rng, rng.integers(max_extra_nodes + 1))
    *sides, labels = shuffled(rng, examples[:num_examples])
    return tuple(sides), labels


def _two_graphs(rng, num_extra):
    """Two graphs of opposite labels, that of label 0 first."""
    colors = np.array([*COLORS, *[GREY] * (4 + num_extra)], "int32")
    # Of the colours 1, 2, 3, 4, each beside a grey node: 4, 5, 6, 7.
    shared = [(i, 4 + i) for i in range(4)]
    for node in range(8, len(colors)):
        ends = rng.choice(np.arange(4, node), rng.integers(1, 3), replace=False)
        shared += [(node, end) for end in ends]
    examples = []
    for label, between in enumerate([[(4, 7), (6, 5)], [(4, 5), (6, 7)]]):
        adjacency = np.zeros(2 * (len(colors),), bool)
        rows, columns = np.transpose(shared + between)
        adjacency[rows, columns] = adjacency[columns, rows] = True
        order = rng.permutation(len(colors))
        moved = adjacency[order][:, order]
        examples.append((colors[order], moved, label))
    return examples


def generated_communities(
    num_examples: int,
    seed: int = 0,
    num_nodes: int = 40,
    num_communities: int = 3,
    within: float = 0.25,
    between: float = 0.04,
    hint_rate: float = 0.4,
) -> tuple[Any, ...]:
    """Draws graphs by a stochastic block model, and a hint for each node.

    Each node belongs to a community. Two nodes are joined with probability
    `within` if theirs is the same, else with probability `between`. A node's
    hint is its community with probability `hint_rate`, and any community
    otherwise. Neighbours, and theirs, tell more than the hint.

    Args:
        num_examples: Integer, number of graphs.
        seed: Integer, not negative. The same seed gives the same graphs.
        num_nodes: Integer, at least 2, nodes of each graph, `n`.
        num_communities: Integer, at least 2.
        within: Float in (0, 1], probability of an edge inside a community.
        between: Float in [0, 1], probability of an edge between two.
        hint_rate: Float in [0, 1], how often a hint is not drawn at random.

    Returns:
        `((hints, adjacencies), communities)`: arrays `(N, n)` int32,
        `(N, n, n)` boolean, symmetric, and `(N, n)` int32.

    Raises:
        ValueError: If an argument is out of range.

    Example:

    >>> (hints, adjacencies), communities = (
    ...     keras_synth.datasets.generated_communities(10, seed=1))
    >>> hints.shape, adjacencies.shape, communities.shape
    ((10, 40), (10, 40, 40), (10, 40))

    References:
        - [Holland et al., 1983](https://doi.org/10.1016/0378-8733(83)90021-7)
    """
    check_integers(
        num_examples=(num_examples, 1),
        num_nodes=(num_nodes, 2),
        num_communities=(num_communities, 2),
    )
    check_rates(within=within, between=between, hint_rate=hint_rate)
    if not within:
        raise ValueError(
            "within must be more than 0, or communities have no edges. "
            f"Received: {within!r}"
        )
    rng = np.random.default_rng(seed)
    shape = num_examples, num_nodes
    communities = rng.integers(num_communities, size=shape, dtype="int32")
    same = communities[:, :, None] == communities[:, None]
    drawn = rng.random((*shape, num_nodes)) < np.where(same, within, between)
    upper = np.triu(drawn, k=1)
    hints = np.where(
        rng.random(shape) < hint_rate,
        communities,
        rng.integers(num_communities, size=shape, dtype="int32"),
    )
    return (hints, upper | upper.transpose(0, 2, 1)), communities
