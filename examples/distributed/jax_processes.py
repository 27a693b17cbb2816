"""Two processes that train one model by `keras.distribution`, on JAX.

```shell
KERAS_BACKEND=jax python examples/distributed/jax_processes.py
```

starts both on this machine. On several machines, start one on each. Set
`KERAS_DISTRIBUTION_JOB_ADDRESSES`, `KERAS_DISTRIBUTION_NUM_PROCESSES` and
`KERAS_DISTRIBUTION_PROCESS_ID` as `launch` does below.

Each process writes a checkpoint after each epoch. If one is killed, all end.
The same command then continues after the last epoch for which all checkpoints
exist. `--processes 1` has the same losses.
"""

import argparse
import os
import pathlib
import socket
import subprocess
import sys
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import common


def launch(number):
    """Runs this script once more for each process, and waits for them all.

    If one of them fails or is killed, so are the others, because they cannot
    go on without it.
    """
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    processes = [
        subprocess.Popen(
            [sys.executable, *sys.argv],
            env={
                **os.environ,
                "KERAS_DISTRIBUTION_JOB_ADDRESSES": f"127.0.0.1:{port}",
                "KERAS_DISTRIBUTION_NUM_PROCESSES": str(number),
                "KERAS_DISTRIBUTION_PROCESS_ID": str(i),
                "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo",
                "JAX_NUM_CPU_DEVICES": "1",
                "XLA_FLAGS": "",
            },
        )
        for i in range(number)
    ]
    for i, process in enumerate(processes):
        print(f"process {i} is {process.pid}", flush=True)
    while not any(process.poll() for process in processes):
        if all(process.poll() == 0 for process in processes):
            return
        time.sleep(0.1)
    for process in processes:
        process.kill()
    codes = [process.wait() for process in processes]
    sys.exit(f"The processes ended with {codes}; run the script again.")


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
    process = os.environ.get("KERAS_DISTRIBUTION_PROCESS_ID")
    if process is None and options.processes > 1:
        launch(options.processes)
    else:
        train(options, int(process or 0))
