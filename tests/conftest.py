import collections
import functools
import gc
import importlib.util
import os
import pathlib
import sys
import zlib

import compiler_flags  # noqa: F401  (before Keras: sets XLA_FLAGS)
import pytest

# Keras is imported where it is used: what only hands tests out to processes
# can do without, and it takes seconds.

# What is imported stays: to look for garbage among it takes seconds, too.
gc.disable()

# The fastest to test on, of those that are installed.
ONCE = next(
    name
    for name in ("torch", "jax", "tensorflow")
    if importlib.util.find_spec(name)
)


# What is compiled for each case takes time: these two share the cases out.
SHARES = {"jax": 0, "tensorflow": 1}
# Those that are skipped on one of the two (or slow there, see `slow_but_on`).
NOT_SHARED = ("each_backend", "accelerator", "skipif")


@pytest.fixture(autouse=True)
def names_of_the_package():
    """Leaves out, after each test, the names that it registered."""
    yield
    if "keras_synth.mixers" in sys.modules:
        from keras_synth.registry import registry_of

        for kind in ("synthesizer", "mixer", "pattern", "normalizer"):
            entries = registry_of(kind).entries
            for name, entry in [*entries.items()]:
                if not entry.maker.__module__.startswith("keras_synth."):
                    del entries[name]


def pytest_report_header():
    """Says where the tests are that a backend leaves out."""
    halves = " and half on ".join(SHARES)
    return [
        f"tests that are marked `once` run on {ONCE} alone",
        f"of the cases of a test, half are slow on {halves}",
    ]


def pytest_ignore_collect(collection_path):
    """Spares the others the modules that run on one backend alone."""
    import keras

    if keras.backend.backend() == ONCE or collection_path.suffix != ".py":
        return None
    text = collection_path.read_text(encoding="utf-8")
    return True if "\npytestmark = pytest.mark.once" in text else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leaves what depends on no backend to one of them, and shares out cases.

    Parameters of a test ask much the same of a compiler. A half of them,
    whichever, is slow on JAX, the other half on TensorFlow.
    """
    import keras

    backend = keras.backend.backend()
    if backend == ONCE:
        return
    left_out = [x for x in items if x.get_closest_marker("once")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [x for x in items if not x.get_closest_marker("once")]
    for case in cases_of_the_other(items, SHARES.get(backend)):
        case.add_marker(pytest.mark.slow)


def cases_of_the_other(items, share):
    """The cases of tests that the other backend of `SHARES` runs."""
    tests = collections.defaultdict(list)
    for item in items:
        marked = any(map(item.get_closest_marker, NOT_SHARED))
        if share is not None and hasattr(item, "callspec") and not marked:
            tests[item.nodeid.partition("[")[0]].append(item)
    for cases in tests.values():
        # At random, but the same in each process and on each machine.
        cases.sort(key=lambda case: zlib.crc32(case.nodeid.encode()))
        if len(cases) > 1:
            yield from cases[1 - share :: 2]


def pytest_collection_finish():
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def few_objects():
    """Spares the garbage collector what outlives a test.

    Keras collects garbage at each weight that quantization replaces, and
    TensorFlow alone has millions of objects to look at.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def one_context():
    """Spares JAX a context of MLIR for each of thousands of small programs.

    JAX has no public way to keep one.
    """
    import keras

    if keras.backend.backend() != "jax":
        yield
        return
    from jax._src.interpreters import mlir

    with pytest.MonkeyPatch.context() as patched:
        made = functools.cache(mlir.make_ir_context)
        patched.setattr(mlir, "make_ir_context", made)
        yield


@pytest.fixture(autouse=True)
def seed():
    """Every test starts from the same seed."""
    import keras

    keras.utils.set_random_seed(0)
    yield
    keras.config.set_dtype_policy("float32")


@pytest.fixture
def without_graphs():
    """Lets TensorFlow run steps as they are, for tests of what goes in.

    It traces a step for longer than a few of them take.
    """
    import keras

    if keras.backend.backend() != "tensorflow":
        yield
        return
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="session")
def data():
    """The folder of real data sets; tests that want it skip without it."""
    folder = os.environ.get("KERAS_SYNTH_DATA")
    if not folder or not pathlib.Path(folder).is_dir():
        pytest.skip("KERAS_SYNTH_DATA names no folder of real data")
    return pathlib.Path(folder)
