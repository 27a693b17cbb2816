"""Masks of graphs, and promises of generated graphs."""

from collections import Counter

import numpy as np
import pytest
from assertions import equal

from keras_synth import datasets

pytestmark = pytest.mark.once  # nothing here depends on the backend


def path(nodes):
    """The adjacency of nodes in a row."""
    return np.eye(nodes, k=1, dtype=bool) | np.eye(nodes, k=-1, dtype=bool)


# Masks


def test_nodes_see_their_neighbours_and_themselves():
    mask = datasets.graph_masks([path(3), path(2)], length=4)
    assert mask.shape == (2, 4, 4)
    assert mask.dtype == bool
    for graph, row in zip([path(3), path(2)], mask, strict=True):
        n = len(graph)
        equal(row[:n, :n], graph | np.eye(n, dtype=bool))
        assert row.sum() == row[:n, :n].sum()


def test_edges_of_one_direction_and_self_loops_are_left_where_asked():
    graph = np.eye(3, k=1, dtype=bool)
    graph[1, 1] = True
    mask = datasets.graph_masks([graph], self_loops=False)
    equal(mask[0], graph)


# Generated graphs


def neighbourhoods(colors, adjacency):
    """How often each colour is next to which colours."""
    return frozenset(
        Counter(
            (int(color), tuple(sorted(colors[row].tolist())))
            for color, row in zip(colors, adjacency, strict=True)
        ).items()
    )


def test_the_label_says_which_colours_are_three_steps_apart():
    (colors, graphs), labels = datasets.generated_graphs(400)
    for color, graph, label in zip(colors, graphs, labels, strict=True):
        assert graph.dtype == bool
        assert (graph == graph.T).all()
        assert not graph.diagonal().any()
        place = {c: int(np.flatnonzero(color == c)[0]) for c in (1, 2, 3, 4)}
        walks = np.linalg.matrix_power(graph.astype(int), 3) > 0
        near = np.linalg.matrix_power(graph.astype(int) + np.eye(len(graph)), 2)
        for first in (1, 3):
            for second in (2, 4):
                pair = place[first], place[second]
                assert not near[pair]  # further than two steps
                same = (first, second) in [(1, 2), (3, 4)]
                assert walks[pair] == (same == bool(label))


def test_neighbourhoods_do_not_determine_the_label():
    (colors, graphs), labels = datasets.generated_graphs(400)
    of_kind = {}
    for color, graph, label in zip(colors, graphs, labels, strict=True):
        kind = neighbourhoods(color, graph)
        of_kind.setdefault(kind, []).append(int(label))
    assert len(of_kind) > 100
    for found in of_kind.values():
        assert 2 * sum(found) == len(found)


def test_graphs_are_as_large_as_asked_for():
    (colors, _), _ = datasets.generated_graphs(500, max_extra_nodes=3)
    assert {len(color) for color in colors} == {8, 9, 10, 11}


def test_communities_have_the_edges_and_hints_that_they_promise():
    (hints, graphs), communities = datasets.generated_communities(
        200,
        num_nodes=30,
        num_communities=4,
        within=0.5,
        between=0.1,
        hint_rate=0.2,
    )
    assert graphs.shape == (200, 30, 30)
    assert graphs.dtype == bool
    assert hints.dtype == communities.dtype == "int32"
    assert (graphs == graphs.transpose(0, 2, 1)).all()
    assert not graphs.diagonal(axis1=1, axis2=2).any()
    assert {*communities.ravel().tolist()} == {0, 1, 2, 3}
    same = communities[:, :, None] == communities[:, None]
    others = ~np.eye(30, dtype=bool)[None]
    assert abs(graphs[same & others].mean() - 0.5) < 0.02
    assert abs(graphs[~same].mean() - 0.1) < 0.01
    assert abs((hints == communities).mean() - (0.2 + 0.8 / 4)) < 0.02


@pytest.mark.parametrize(
    "graph",
    [np.ones((2, 3), bool), np.ones((2, 2)), np.ones((5, 5), bool), [True]],
)
def test_other_arrays_than_adjacencies_are_errors(graph):
    with pytest.raises(ValueError, match=r"must be a boolean array \(n, n\)"):
        datasets.graph_masks([graph], length=4)
