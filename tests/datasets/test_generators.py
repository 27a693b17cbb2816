"""Promises of all generators, and errors for arguments."""

import numpy as np
import pytest

from keras_synth import datasets

pytestmark = pytest.mark.once  # nothing here depends on the backend

GENERATORS = [
    datasets.generated_reviews,
    datasets.generated_pairs,
    datasets.generated_entities,
    datasets.generated_translations,
    datasets.generated_listops,
    datasets.generated_graphs,
    datasets.generated_communities,
]
BALANCED = [
    datasets.generated_reviews,
    datasets.generated_pairs,
    datasets.generated_graphs,
]
CONTINUED = [datasets.generated_translations, datasets.generated_listops]


def plain(data):
    """Data with lists in place of tuples and arrays."""
    if isinstance(data, np.ndarray):
        return data.tolist()
    return [*map(plain, data)] if isinstance(data, (list, tuple)) else data


@pytest.mark.parametrize("generate", GENERATORS)
def test_examples_depend_on_the_seed_only(generate):
    first, again, other = (generate(50, seed=seed) for seed in (3, 3, 4))
    assert plain(first) == plain(again)
    assert plain(first[0]) != plain(other[0])


@pytest.mark.parametrize("generate", BALANCED)
@pytest.mark.parametrize("count", [1, 2, 3, 101, 400])
def test_labels_balance_and_are_as_many_as_asked_for(generate, count):
    examples, labels = generate(count)
    sides = examples if isinstance(examples, tuple) else (examples,)
    assert {len(side) for side in sides} == {len(labels)} == {count}
    assert labels.dtype == "int32"
    assert labels.sum() == count // 2


@pytest.mark.parametrize("generate", CONTINUED)
@pytest.mark.parametrize("count", [1, 2, 300])
def test_all_are_distinct_and_more_begin_with_the_same(generate, count):
    few, more = generate(count, seed=3), generate(400, seed=3)
    assert plain(few) == [side[:count] for side in plain(more)]
    assert len({*few[0]}) == len(few[1]) == count


@pytest.mark.parametrize("generate", GENERATORS)
@pytest.mark.parametrize(
    "given", [(0,), (-1,), (2.0,), (True,), (None,), (3, -1), (3, 1.5)]
)
def test_counts_and_seeds_must_be_integers(generate, given):
    with pytest.raises(ValueError, match=f"integer. Received.*={given[-1]!r}"):
        generate(*given)


WRONG = {
    datasets.generated_reviews: [
        ("min_sentences", {"min_sentences": 0}),
        (
            "max_sentences must be at least 5",
            {"min_sentences": 5, "max_sentences": 4},
        ),
        ("hard_fraction must be from 0", {"hard_fraction": 1.5}),
        ("hard_fraction must be from 0", {"hard_fraction": float("nan")}),
    ],
    datasets.generated_pairs: [
        ("num_topics", {"num_topics": 2.0}),
        ("num_topics must be from 2 to 24", {"num_topics": 1}),
        ("num_topics must be from 2 to 24", {"num_topics": 25}),
        ("words_per_topic must be from 1 to 6", {"words_per_topic": 7}),
        ("words_per_topic", {"words_per_topic": 0}),
    ],
    datasets.generated_listops: [
        ("max_depth must be at least 2", {"max_depth": 1}),
        ("max_args must be at least 2", {"max_args": 1}),
        ("max_length must be at least 4", {"max_length": 3}),
        ("max_length must be at least 9", {"min_length": 9, "max_length": 8}),
    ],
    datasets.generated_graphs: [("max_extra_nodes", {"max_extra_nodes": 0})],
    datasets.generated_communities: [
        ("num_nodes must be at least 2", {"num_nodes": 1}),
        ("num_communities must be at least 2", {"num_communities": 1}),
        ("within must be above 0", {"within": 0.0}),
        ("within must be from 0", {"within": 1.5}),
        ("between must be from 0", {"between": -0.1}),
        ("hint_rate must be from 0", {"hint_rate": float("nan")}),
    ],
}


@pytest.mark.parametrize(
    ("generate", "message", "options"),
    [(f, *case) for f, cases in WRONG.items() for case in cases],
)
def test_options_out_of_range_are_errors(generate, message, options):
    with pytest.raises(ValueError, match=f"{message}.*Received"):
        generate(10, **options)
