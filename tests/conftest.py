import gc
import os
import pathlib

# Tests compile many small programs and run each of them once or twice. Flags
# that are given, such as --xla_cpu_max_isa=AVX2, count as well.
os.environ["XLA_FLAGS"] = " ".join(
    ["--xla_backend_optimization_level=0", os.environ.get("XLA_FLAGS", "")]
)

import keras
import pytest


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


@pytest.fixture(scope="session")
def data():
    """The folder of real data sets; tests that want it skip without it."""
    folder = os.environ.get("KERAS_SYNTH_DATA")
    if not folder or not pathlib.Path(folder).is_dir():
        pytest.skip("KERAS_SYNTH_DATA names no folder of real data")
    return pathlib.Path(folder)
