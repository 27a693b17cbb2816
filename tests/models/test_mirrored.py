"""Models under `tf.distribute`."""

import keras
import pytest
from scripts import run_helper


@pytest.mark.slow
@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="a strategy of TensorFlow"
)
def test_two_devices_train_like_one():
    run_helper("mirrored.py")
