"""`DataParallel` and `ModelParallel` of Keras, on JAX.

One CPU is divided into eight devices. On a machine with eight GPUs or TPU
cores, leave out `XLA_FLAGS`.

```shell
KERAS_BACKEND=jax python examples/distributed/jax_devices.py \\
    --distribution model
```

With `data`, each device has a copy of the model and an eighth of each batch.
With `model`, there are two groups of four devices. A group has half of each
batch, and `get_layout_map` divides heads, feed-forward networks and vocabulary
between its devices. `none` is one device. All three have the same losses.
"""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import common
import keras

from keras_synth import models


def distribution(name):
    """A `keras.distribution.Distribution`, or `None` for one device."""
    if name == "none":
        return None
    if name == "data":
        return keras.distribution.DataParallel()
    mesh = keras.distribution.DeviceMesh(
        shape=(2, 4), axis_names=("batch", "model")
    )
    return keras.distribution.ModelParallel(
        layout_map=models.SynthesizerBackbone.get_layout_map(mesh),
        batch_dim_name="batch",
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--distribution", choices=("none", "data", "model"), default="model"
    )
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--results", help="JSON file for the losses")
    options = parser.parse_args()

    # Before the model is made or loaded.
    keras.distribution.set_distribution(distribution(options.distribution))
    model = common.classifier()
    for weight in model.backbone.weights:
        if options.distribution != "none" and len(weight.shape) > 2:
            print(f"{weight.path:<60} {weight.value.sharding.spec}")
    inputs, labels = common.data()
    history = keras.Model.fit(
        model,
        inputs,
        labels,
        batch_size=common.BATCH_SIZE,
        epochs=options.epochs,
        shuffle=False,
        verbose=0,
    )
    common.report(history.history["loss"], options.results)
