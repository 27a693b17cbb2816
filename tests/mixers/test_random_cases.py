"""Random layers: correct, equal for single samples, and compiled.

Attention equals its formula, in outputs and gradients. XLA equals eager
operations. A batch of one, whose tensors look like those shared by all samples,
has the same outputs as in a larger batch.
"""

import random

import keras
import numpy as np
import pytest
from backend import some_on_each_backend
from hypothesis import given, settings
from hypothesis import strategies as st
from random_cases import (
    MIXERS,
    SYNTHESIZERS,
    Run,
    along,
    attention_case,
    expected,
    mixer_case,
)

BACKEND = keras.backend.backend()
# Cases of each name: PyTorch compiles nothing, the others' time is XLA's.
QUICK = {"torch": 12, "tensorflow": 1, "jax": 1}[BACKEND]
# Of many cases one in so many is both compiled and run one by one, others are
# the one or the other. TensorFlow keeps what XLA has compiled as long as the
# process lives, in some 100 regions of memory a program, and Linux lets a
# process have 65,530. JAX compiles each operation that runs by itself, for each
# shape.
ONE_IN = 20
# Whether few cases are compiled, and run one by one.
FEW = BACKEND != "torch", BACKEND != "jax"
# Of the largest number that there is, or of 1, by dtype policy.
TOLERANCES = {"float32": 1e-4, "mixed_float16": 0.05, "mixed_bfloat16": 0.2}

MANY = settings.default.max_examples // (1 if BACKEND == "torch" else 8)
many = settings(max_examples=MANY)


def close(found, wanted, tolerance, what):
    scale = max(1.0, np.abs(wanted).max(initial=0))
    np.testing.assert_allclose(
        found, wanted, rtol=0, atol=tolerance * scale, err_msg=what
    )


def compare(found, wanted, tolerance, what):
    """Compares outputs and gradients, the latter relative to the largest."""
    close(found[0], wanted[0], tolerance, f"output, {what}")
    scale = max(np.abs(x).max(initial=0) for x in wanted[1])
    for number, (mine, theirs) in enumerate(
        zip(found[1], wanted[1], strict=True)
    ):
        close(
            mine / max(1.0, scale),
            theirs / max(1.0, scale),
            tolerance,
            f"gradient by array {number}, {what}",
        )


def check_formula(case, run, found, tolerance):
    """Output, and gradients along a random direction."""

    def formula(arrays):
        return expected(case, arrays, run)

    close(found[0], formula(run.arrays), tolerance, "formula")
    products, wanted = along(run, found[1], formula)
    mine = sum(map(np.sum, products))
    # Rounding errors of all arrays add up.
    size = sum(np.abs(x).sum() for x in products)
    assert abs(mine - wanted) <= tolerance * max(1.0, size), (mine, wanted)


def check(case, compiles, one_by_one):
    """Asks everything of a case that is compiled, run one by one, or both."""
    run, tolerance = Run(case), TOLERANCES[case.policy]
    found = run.found(compiles)
    if not case.is_mixer:
        check_formula(case, run, found, tolerance)
    first, second, slopes = run.found_twice(compiles)
    compare((first, slopes), found, tolerance, "twice")
    close(second, found[0], tolerance, "twice, the second one")
    if compiles and one_by_one:
        compare(run.found(False), found, tolerance, "one by one")


def check_one_of_many(case):
    """Runs cases that fit this backend's time and memory."""
    both = BACKEND != "torch" and case.seed % ONE_IN == 0
    check(case, both or BACKEND == "jax", both or BACKEND != "jax")


def name_of(parts):
    return parts if isinstance(parts, str) else " + ".join(parts)


each_synthesizer = pytest.mark.parametrize(
    "parts",
    some_on_each_backend(SYNTHESIZERS, [*SYNTHESIZERS[:5], ("R", "V")]),
    ids=name_of,
)
each_mixer = pytest.mark.parametrize(
    "name", some_on_each_backend(MIXERS, MIXERS[::6])
)


@each_synthesizer
def test_attention_drawn_at_random_is_its_formula(parts):
    for number in range(QUICK):
        choose = random.Random(f"{parts}, {number}").choice
        check(attention_case(parts, choose), *FEW)


@each_mixer
def test_mixers_drawn_at_random_see_one_sample_as_two(name):
    for number in range(QUICK):
        choose = random.Random(f"{name}, {number}").choice
        check(mixer_case(name, choose), *FEW)


def chooser(data):
    return lambda options: data.draw(st.sampled_from(options))


@pytest.mark.slow
@each_synthesizer
@many
@given(data=st.data())
def test_much_more_attention_is_its_formula(parts, data):
    check_one_of_many(attention_case(parts, chooser(data)))


@pytest.mark.each_backend
@pytest.mark.parametrize("name", ["relu", "sigmoid"])
def test_rows_that_fill_up_a_tile_reach_no_gradient(name):
    """Nine rows in tiles of four: three rows of the last one see no keys."""
    case = mixer_case("linear", random.Random(0).choice)._replace(
        parts=f"attention(R + V, normalizer={name!r})",
        **{"target": 9, "source": None, "batch": 2, "causal": False},
        **{"masks": {"pairs"}, "bias": None, "policy": "float32"},
        **{"route": "tiles", "piece": 36},
    )
    found = Run(case).found(BACKEND != "torch")
    case = case._replace(route="explicit", piece=None)
    wanted = Run(case).found(BACKEND != "torch")
    compare(found, wanted, 1e-5, "by tiles")


@pytest.mark.slow
@each_mixer
@many
@given(data=st.data())
def test_many_more_mixers_see_one_sample_as_two(name, data):
    check_one_of_many(mixer_case(name, chooser(data)))
