"""`tf.distribute.MirroredStrategy`: TensorFlow on several devices.

One CPU is divided into two devices. On a machine with GPUs, leave that out and
pass no devices to `MirroredStrategy`.

```shell
KERAS_BACKEND=tensorflow python examples/distributed/tensorflow_mirrored.py
```

Each device has a copy of the model and half of each batch. `--devices 1` has
the same losses.
"""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import common
import keras
import tensorflow as tf


def strategy(number):
    """A strategy for so many virtual devices."""
    (cpu, *_) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * number
    )
    return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(number)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--results", help="JSON file for the losses")
    options = parser.parse_args()

    with strategy(options.devices).scope():
        model = common.classifier()
    dataset = tf.data.Dataset.from_tensor_slices(common.data())
    history = keras.Model.fit(
        model,
        dataset.batch(common.BATCH_SIZE),
        epochs=options.epochs,
        verbose=0,
    )
    common.report(history.history["loss"], options.results)
