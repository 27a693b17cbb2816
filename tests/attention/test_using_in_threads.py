"""Blocks of `routes.using` in several threads, and overlapping ones."""

import contextlib
import contextvars
import threading

import pytest
from keras import ops

from keras_synth import routes
from keras_synth.logits import Logits

PATIENCE = 30  # seconds until a thread that waits gives up


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


def run_all(*functions):
    """Runs each function in a separate thread; raises their errors."""
    errors = []

    def guarded(function):
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(f,)) for f in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    if errors:
        raise errors[0]


def test_a_block_applies_only_to_its_own_thread(known):
    begun, looked = threading.Event(), threading.Event()
    seen = {}

    def inside():
        with routes.using(Named("own")):
            begun.set()
            assert looked.wait(PATIENCE)
            seen["inside"] = names(), chosen()
        seen["after"] = names()

    def outside():
        assert begun.wait(PATIENCE)
        seen["outside"] = names(), chosen()
        looked.set()

    run_all(inside, outside)
    assert seen["inside"] == ([*known, "own"], "own")
    assert seen["outside"] == (known, "shared")
    assert seen["after"] == known


def test_a_thread_started_inside_of_a_block_needs_its_context(known):
    seen = {}

    def look(name):
        seen[name] = names()

    with routes.using(Named("own")):
        context = contextvars.copy_context()
        run_all(lambda: look("plain"), lambda: context.run(look, "given"))
    assert seen == {"plain": known, "given": [*known, "own"]}


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
