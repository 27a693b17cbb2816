"""How tests run: on which backend, from which seed, and how many examples."""

import contextlib
import gc
import importlib.util
import os
import pathlib
import sys

import compiler_flags  # noqa: F401  (before Keras: sets XLA_FLAGS)
import pytest

# From the fastest to test on to the slowest.
BACKENDS = ("torch", "jax", "tensorflow")
INSTALLED = [name for name in BACKENDS if importlib.util.find_spec(name)]
if INSTALLED:
    os.environ.setdefault("KERAS_BACKEND", INSTALLED[0])

# Keras is imported at its use, because it takes seconds. Processes that only
# distribute tests do not need it.

# Imported modules stay, and a search for garbage in them takes seconds.
gc.disable()

with contextlib.suppress(ImportError):  # a new device has pytest at most
    from hypothesis import HealthCheck, settings

    # `--hypothesis-profile=full` draws other examples each time, and more
    # if nothing is compiled for each. Slow tests request a part of them.
    settings.register_profile(
        "quick",
        max_examples=100,
        derandomize=True,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    settings.register_profile(
        "full",
        settings.get_profile("quick"),
        max_examples=480 if os.environ.get("KERAS_BACKEND") == "torch" else 160,
        derandomize=False,
    )
    settings.load_profile("quick")


def pytest_configure():
    """Reports missing data in one line."""
    backend = os.environ.get("KERAS_BACKEND")
    if backend not in INSTALLED:
        raise pytest.UsageError(
            "KERAS_BACKEND must name a backend that is installed, one of "
            f"{', '.join(INSTALLED) or 'none'}. Received: {backend}"
        )
    folder = os.environ.get("KERAS_SYNTH_DATA")
    if folder and not pathlib.Path(folder).is_dir():
        raise pytest.UsageError(
            "KERAS_SYNTH_DATA must name a folder of data sets; leave it out "
            f"to skip the tests that read them. Received: {folder}"
        )


def pytest_collection_finish():
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def few_objects():
    """Hides objects that outlive a test from the garbage collector.

    Keras collects garbage at each weight that quantization replaces, and
    TensorFlow has millions of objects to search.
    """
    gc.collect()
    gc.freeze()


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


@pytest.fixture(autouse=True)
def seed():
    """Every test starts from the same seed."""
    import keras

    keras.utils.set_random_seed(0)
    yield
    keras.config.set_dtype_policy("float32")


@pytest.fixture
def without_graphs():
    """Lets TensorFlow run steps eagerly, for tests of their inputs.

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
    if not folder:
        pytest.skip("KERAS_SYNTH_DATA names no folder of real data")
    return pathlib.Path(folder)
