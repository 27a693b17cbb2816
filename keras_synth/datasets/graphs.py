"""Attention masks of graphs, and generators of labelled graphs."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_synth.datasets.words import (
    check_integers,
    check_rates,
    new_rng,
    shuffled,
)
from keras_synth.types import Tensor

GREY, COLORS = 0, (1, 2, 3, 4)  # the label is about the first two


def graph_masks(
    adjacencies: Sequence[Tensor],
    length: int | None = None,
    self_loops: bool = True,
) -> Any:
    """Makes attention masks of graphs: nodes see neighbours and themselves.

    A layer of attention is then one round of messages between neighbours, and
    `L` layers reach `L` steps.

    Args:
        adjacencies: Sequence of `B` boolean arrays `(n_i, n_i)`. If `(i, j)` is
            True, node i sees node j; in an undirected graph `(j, i)` is also
            True.
        length: Integer, number of nodes `T` of the result; by default that of
            the largest graph.
        self_loops: Whether each node sees itself. Otherwise a node without
            neighbours has a context of zero.

    Returns:
        Boolean array `(B, T, T)`, an `attention_mask`, False for padded nodes.

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
                "An adjacency must be a boolean array (n, n) with n at most "
                f"{nodes}. For a sparse matrix pass `adjacency.toarray() != "
                f"0`. Received: graph {i} of shape {x.shape} and dtype "
                f"{x.dtype}"
            )
    mask: np.ndarray = np.zeros((len(arrays), nodes, nodes), bool)
    for row, x in zip(mask, arrays, strict=True):
        row[: len(x), : len(x)] = x | (np.eye(len(x), dtype=bool) & self_loops)
    return mask


def generated_graphs(
    num_examples: int, seed: int = 0, max_extra_nodes: int = 6
) -> tuple[Any, ...]:
    """Draws graphs of coloured nodes, labelled by which colours are near.

    Each graph has one node of each of the colours 1 to 4; all other nodes are
    grey, 0. For label 1, two grey nodes connect 1 and 2, and two others connect
    3 and 4. For label 0, they connect 1 and 4, and 3 and 2. Further grey nodes
    are added.

    Graphs come in pairs with opposite labels that differ in one exchange: edges
    `a - b` and `c - d` of four grey nodes become `a - d` and `c - b`. Both
    graphs have the same colours of nodes and neighbours, so counts of
    neighbourhoods, or sums over one round of messages, are right on one of the
    two. After two rounds, a grey node next to colour 1 has the colour next to
    its grey neighbour, which determines the label.

    Args:
        num_examples: Integer, number of graphs.
        seed: Non-negative integer. The same seed makes the same graphs.
        max_extra_nodes: Integer, maximum number of nodes in addition to these
            8.

    Returns:
        `((colors, adjacencies), labels)`, shuffled: lists of int32 arrays
        `(n,)` and of symmetric boolean arrays `(n, n)`, and an int32 array.
        Both labels are equally frequent; in an odd number, one more is 0.

    Raises:
        ValueError: If an argument is out of range or not an integer.

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
    rng = new_rng(seed)
    examples: list[Any] = []
    while len(examples) < num_examples:
        examples += _two_graphs(rng, rng.integers(max_extra_nodes + 1))
    *sides, labels = shuffled(rng, examples[:num_examples])
    return tuple(sides), labels


def _two_graphs(rng, num_extra):
    """Two graphs with the labels 0 and 1."""
    colors = np.array([*COLORS, *[GREY] * (4 + num_extra)], "int32")
    # Nodes of the colours 1, 2, 3, 4, next to the grey nodes 4, 5, 6, 7.
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

    Each node belongs to a community. Two nodes are connected with probability
    `within` if they have the same community, and with probability `between`
    otherwise. A node's hint is its community with probability `hint_rate`, and
    a random community otherwise. The hints of neighbours, and of their
    neighbours, contain more information.

    Args:
        num_examples: Integer, number of graphs.
        seed: Non-negative integer. The same seed makes the same graphs.
        num_nodes: Integer, at least 2, nodes of each graph, `n`.
        num_communities: Integer, at least 2.
        within: Float in (0, 1], probability of an edge inside a community.
        between: Float in [0, 1], probability of an edge between communities.
        hint_rate: Float in [0, 1], fraction of hints that are not random.

    Returns:
        `((hints, adjacencies), communities)`: int32 array `(N, n)`, symmetric
        boolean array `(N, n, n)`, and int32 array `(N, n)`.

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
            "within must be above 0, or communities have no edges. Received: "
            f"{within!r}"
        )
    rng = new_rng(seed)
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
