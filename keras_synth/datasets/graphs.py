"""Graphs as attention masks: each node sees its neighbours."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_synth._backend.checks import check_optional
from keras_synth.types import Tensor


def graph_masks(
    adjacencies: Sequence[Tensor],
    length: int | None = None,
    self_loops: bool = True,
    min_edges: int = 1,
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
        min_edges: Integer, the fewest True entries of an adjacency outside
            its diagonal. Without edges attention compares nothing; pass 0
            where that is meant.

    Returns:
        Boolean array `(B, T, T)`, an `attention_mask`. Padded nodes see no
        node, and none sees them.

    Raises:
        ValueError: If an adjacency is not boolean, not square, larger than
            `length`, or has too few edges.

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
    length = check_optional("length", length)
    arrays = [np.asarray(x) for x in adjacencies]
    if not arrays:
        raise ValueError("There must be a graph. Received: none")
    for i, x in enumerate(arrays):
        _check_graph(i, x, min_edges)
    largest = max(map(len, arrays))
    if length is not None and largest > length:
        raise ValueError(
            f"A graph has more nodes than length={length}. Leave it out, or "
            f"pass a larger length. Received: {largest} nodes"
        )
    nodes = largest if length is None else length
    mask = np.zeros((len(arrays), nodes, nodes), bool)
    for row, x in zip(mask, arrays, strict=True):
        row[: len(x), : len(x)] = x
        if self_loops:
            row[range(len(x)), range(len(x))] = True
    return mask


def _check_graph(i, x, min_edges):
    if x.ndim != 2 or x.shape[0] != x.shape[1]:
        raise ValueError(
            "An adjacency must be square, (nodes, nodes); `.toarray()` makes "
            "one of a sparse matrix. Received: graph "
            f"{i} of shape {x.shape}"
        )
    if x.dtype != bool:
        raise ValueError(
            "An adjacency must be boolean: pass `adjacency != 0`. Weights of "
            "edges may be an `attention_bias`. Received: graph "
            f"{i} of dtype {x.dtype}, such as {x.ravel()[:4].tolist()}"
        )
    edges = int(x.sum() - np.trace(x))
    if edges < min_edges:
        raise ValueError(
            f"A graph has fewer edges than min_edges={min_edges}. Leave it "
            "out, or pass min_edges=0 to let its nodes see themselves alone. "
            f"Received: graph {i} of {len(x)} nodes and {edges} edges"
        )
