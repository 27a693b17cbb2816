"""Blocks of `routes.using` in several threads, and overlapping ones."""

import contextlib
import contextvars
from concurrent.futures import ThreadPoolExecutor

import pytest
from keras import ops

from keras_synth import routes
from keras_synth.logits import Logits


class Named(routes.ExplicitRoute):
    def __init__(self, name):
        self.name = name

    def cost(self, request):
        return 0.0


def names():
    return [route.name for route in routes.registered()]


def chosen():
    request = routes.Request(
        Logits(bias=ops.zeros((1, 2, 3, 3))), ops.ones((1, 3, 2, 4)), 3
    )
    return routes.choose(request).name


@pytest.fixture
def known():
    before = names()
    yield before
    assert names() == before


def test_a_thread_needs_the_context_of_a_block(known):
    def look():
        return names(), chosen()

    with routes.using(Named("own")), ThreadPoolExecutor() as pool:
        context = contextvars.copy_context()
        assert pool.submit(look).result() == (known, "shared")
        inside = [*known, "own"], "own"
        assert pool.submit(context.run, look).result() == look() == inside


def test_blocks_that_do_not_end_in_order_are_independent(known):
    first, second = contextlib.ExitStack(), contextlib.ExitStack()
    first.enter_context(routes.using(Named("one")))
    second.enter_context(routes.using(Named("two")))
    first.close()
    assert names() == [*known, "two"]
    second.close()


def test_nested_blocks_add_up(known):
    with routes.using(Named("one")):
        with routes.using(Named("two"), Named("three")):
            assert names() == [*known, "one", "two", "three"]
        assert names() == [*known, "one"]
        taken = pytest.raises(ValueError, match="other than")
        with taken, routes.using(Named("two"), Named("one")):
            pass
        assert names() == [*known, "one"]


def test_portable_blocks_can_overlap():
    logits = Logits(*ops.ones((2, 2, 3, 2, 4)))
    request = routes.Request(logits, ops.ones((2, 3, 2, 4)), 3)

    class Loops(Named):
        def is_portable(self, request):
            return False

    def names():
        return [route.name for route in routes.serving(request)]

    first, second = contextlib.ExitStack(), contextlib.ExitStack()
    with routes.using(Loops("loops")):
        assert "loops" in names()
        first.enter_context(routes.portable())
        second.enter_context(routes.portable())
        first.close()
        assert "loops" not in names()
        second.close()
        assert "loops" in names()
