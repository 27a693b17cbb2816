"""Models under `tf.distribute`."""

import pytest
from backend import only_on
from scripts import run_helper


@pytest.mark.slow
@only_on("tensorflow", "it has the strategy")
def test_two_devices_train_like_one():
    run_helper("mirrored.py")
