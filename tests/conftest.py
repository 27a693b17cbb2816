import gc
import importlib.util
import os
import pathlib

import compiler_flags  # noqa: F401  (before Keras: sets XLA_FLAGS)
import keras
import pytest

# The fastest to test on, of those that are installed.
ONCE = next(
    name
    for name in ("torch", "jax", "tensorflow")
    if importlib.util.find_spec(name)
)


def pytest_report_header():
    """Says where the tests are that other backends leave out."""
    if keras.backend.backend() != ONCE:
        return f"tests that are marked `once` run on {ONCE} alone"


def pytest_collection_modifyitems(config, items):
    """Leaves what depends on no backend to one of them."""
    if keras.backend.backend() == ONCE:
        return
    left_out = [x for x in items if x.get_closest_marker("once")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [x for x in items if not x.get_closest_marker("once")]


@pytest.fixture(scope="module", autouse=True)
def few_objects():
    """Spares the garbage collector what outlives a test.

    Keras collects garbage at each weight that quantization replaces, and
    TensorFlow alone has millions of objects to look at.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def seed():
    """Every test starts from the same seed."""
    keras.utils.set_random_seed(0)
    yield
    keras.config.set_dtype_policy("float32")


@pytest.fixture
def without_graphs():
    """Lets TensorFlow run steps as they are, for tests of what goes in.

    It traces a step for longer than a few of them take.
    """
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
