"""Models under `tf.distribute`."""

import pathlib
import subprocess
import sys

import keras
import pytest


@pytest.mark.slow
@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="a strategy of TensorFlow"
)
def test_two_devices_train_as_one_does():
    script = pathlib.Path(__file__).with_name("mirrored.py")
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
