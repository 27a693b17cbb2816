"""Models under `tf.distribute`."""

import subprocess
import sys

import keras
import pytest
from places import HELPERS


@pytest.mark.slow
@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="a strategy of TensorFlow"
)
def test_two_devices_train_like_one():
    script = HELPERS / "mirrored.py"
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
