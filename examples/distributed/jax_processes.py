"""Two processes that train one model by `keras.distribution`, on JAX.

```shell
KERAS_BACKEND=jax python examples/distributed/jax_processes.py
```

starts both on this machine. On several machines, start one on each. Set
`KERAS_DISTRIBUTION_JOB_ADDRESSES`, `KERAS_DISTRIBUTION_NUM_PROCESSES` and
`KERAS_DISTRIBUTION_PROCESS_ID` as `environment` does below, and `PROCESS` like
the last of these.

Each process writes a checkpoint after each epoch. If one is killed, all end.
The same command then continues after the last epoch for which all checkpoints
exist. `--processes 1` has the same losses.
"""

import argparse
import os
import pathlib

os.environ.setdefault("KERAS_BACKEND", "jax")

import common


def environment(i, ports):
    addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
    return {
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": addresses,
        "KERAS_DISTRIBUTION_NUM_PROCESSES": str(len(ports)),
        "KERAS_DISTRIBUTION_PROCESS_ID": str(i),
        "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo",
        "JAX_NUM_CPU_DEVICES": "1",
        "XLA_FLAGS": "",
    }


def checkpoint(folder, process, epoch):
    return folder / f"process_{process}_epoch_{epoch:03d}.keras"


def train(options, process):
    import keras
    import tensorflow as tf

    import keras_synth.models  # noqa: F401, so that Keras can load its classes

    if "KERAS_DISTRIBUTION_NUM_PROCESSES" in os.environ:
        keras.distribution.initialize()  # before anything is computed
    # Each process reads all data and uses its part of each batch.
    keras.distribution.set_distribution(keras.distribution.DataParallel())
    dataset = tf.data.Dataset.from_tensor_slices(common.data())
    dataset = dataset.batch(common.BATCH_SIZE)

    folder = pathlib.Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    # The last epoch after which all processes wrote a checkpoint.
    done = min(
        len(list(folder.glob(f"process_{i}_epoch_*.keras")))
        for i in range(options.processes)
    )
    if done:
        model = keras.saving.load_model(checkpoint(folder, process, done))
        print(f"process {process} goes on after epoch {done}", flush=True)
    else:
        model = common.classifier()

    def save(epoch, logs):
        # Saving is a computation of all processes. A file is complete or
        # absent: tasks write a temporary file and rename it.
        model.save(checkpoint(folder, process, epoch + 1))
        if process == 0:
            print(f"epoch {epoch + 1}: loss {logs['loss']:.6f}", flush=True)

    history = keras.Model.fit(
        model,
        dataset,
        epochs=options.epochs,
        initial_epoch=done,
        callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=save)],
        verbose=0,
    )
    if process == 0:
        common.report(history.history["loss"], folder / "losses.json")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument(
        "--output", default="output", help="folder of checkpoints, shared"
    )
    options = parser.parse_args()
    process = common.process_number()
    if process is None and options.processes > 1:
        common.launch(options.processes, environment)
    else:
        train(options, process or 0)
