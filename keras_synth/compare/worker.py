"""A run in a separate process: `python -m keras_synth.compare.worker`.

It reads its spec, JSON, from standard input, which stays open while the parent
process lives. It writes events to standard output, a JSON object per line:
changes of a progress bar, and last the result.
"""

import contextlib
import errno
import json
import os
import pathlib
import re
import shutil
import sys
import threading
import time
import traceback

import filelock
import keras
import numpy as np

from keras_synth.analysis import multiplications
from keras_synth.compare import own
from keras_synth.compare.data import read_arrays
from keras_synth.compare.files import writing
from keras_synth.compare.tasks import TASKS

# Other runs could not write their files either.
DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)
EVENT_SECONDS = 0.2  # between events
POINTS = 200  # of a curve of losses
CARD = """---
library_name: keras
tags: [keras, keras_synth]
---

A `{model}` with the attention {variant!r}, trained by

```shell
{command}
```

Its results are in `runs/{name}.json`. Test: {score}.

To load it, in the folder where the command was run:

```python
{code}
model = keras_synth.models.{model}.from_preset("{preset}")
{use}
```

Settings:

```json
{settings}
```
"""


class Steps(keras.utils.PyDataset):
    """Batches in epochs of a given number of steps."""

    def __init__(self, batches, steps):
        super().__init__()
        self.batches, self.steps, self.epoch = batches, steps, 0

    def __len__(self):
        return self.steps

    def __getitem__(self, index):
        place = self.epoch * self.steps + index
        self.batches.epoch, index = divmod(place, len(self.batches))
        return self.batches[index]


class Log(keras.callbacks.Callback):
    """Records losses and times, and emits events."""

    def __init__(self, batches, emit, validation):
        super().__init__()
        self.batches, self.emit, self.validation = batches, emit, validation
        self.losses, self.seconds = [], []  # by the number of steps; of a step
        self.done, self.emitted = 0, 0.0

    def on_epoch_begin(self, epoch, logs=None):
        self.batches.epoch = epoch

    def on_train_batch_begin(self, batch, logs=None):
        self.first, self.began = batch, time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        loss, now = float(logs["loss"]), time.perf_counter()
        # One, or `steps_per_execution` up to the end of the epoch.
        steps = min(batch + 1, self.params["steps"]) - self.first
        self.done += steps
        self.seconds.append((now - self.began) / steps)
        self.losses.append((self.done, loss))
        if now - self.emitted > EVENT_SECONDS:
            self.emitted = now
            note = f"loss {loss:.3f}"
            self.emit({"completed": self.done, "note": note})

    def on_epoch_end(self, epoch, logs=None):
        name = f"val_{self.validation}"
        if name not in logs:  # the score of a script's own model
            known = [x[4:] for x in logs if x.startswith("val_")]
            raise ValueError(
                f"`score` must be one of {known}, the loss and metrics of the "
                f"model. Received: score={self.validation!r}"
            )
        note = f"validation {self.validation} {np.mean(logs[name]):.3f}"
        self.emit({"completed": self.done, "note": note})

    def curve(self):
        """Steps, and Keras' mean loss of the epoch up to them."""
        count = len(self.losses)
        places = np.linspace(0, count - 1, min(POINTS, count)).astype(int)
        points = [self.losses[i] for i in places]
        return [[step, round(loss, 5)] for step, loss in points]


def share_initial_weights(model, path):
    """Loads a model's initial weights from a file, or writes the file.

    Backends draw different numbers from the same seed, so the first run draws
    for all. Weights in half precision are stored in float32.
    """
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(f"{path}.lock"):
        if path.exists():
            with np.load(path) as file:
                model.set_weights([file[name] for name in file.files])
        else:
            with writing(path, "wb") as file:
                weights = model.get_weights()
                np.savez(file, *(_in_numpy(x) for x in weights))


def _in_numpy(x):
    """An array in a dtype of NumPy, to which bfloat16 does not belong."""
    return x.astype("float32") if x.dtype.kind == "V" else x


def train(spec, emit):
    """Trains a model by a spec of `make_specs`; returns its result."""
    settings, seed = spec["settings"], spec["seed"]
    keras.utils.set_random_seed(seed)
    keras.config.set_dtype_policy(settings.get("dtype_policy", "float32"))
    arrays = read_arrays(spec["arrays"])
    variant = spec["variant"]
    if spec["script"]:
        task = own.ScriptTask(*spec["script"])
    else:
        variant = own.registered(variant, spec["folder"])
        task = TASKS[spec["task"]]
    batches, validation, test = task.batches(arrays, settings, seed)
    if settings.get("steps_per_epoch"):
        batches = Steps(batches, settings["steps_per_epoch"])
    steps = len(batches) * settings["epochs"]
    emit({"total": steps})
    model = task.build(variant, seed, settings, arrays.notes, steps)
    if not model.built:
        x, *_ = batches[0]
        model(keras.tree.map_structure(keras.ops.convert_to_tensor, x))
    share_initial_weights(model, spec["weights"])
    log = Log(batches, emit, task.validation)
    more = own.callbacks(spec["callbacks"], spec) if spec["callbacks"] else []
    began = time.perf_counter()
    history = keras.Model.fit(
        model,
        batches,
        validation_data=validation,
        epochs=settings["epochs"],
        callbacks=[log, *more],
        shuffle=False,
        verbose=0,
    ).history
    seconds = time.perf_counter() - began
    figures = task.test(model, test, arrays, settings)
    if spec["preset"]:
        model.preprocessor = task.preprocessor(settings, arrays.notes)
        score = task.score(settings).text(figures["score"])
        save(model, spec, card(model, spec, task.use(arrays.notes), score))
    return {
        **figures,
        "history": {
            k: [float(np.mean(x)) for x in y] for k, y in history.items()
        },
        "losses": log.curve(),
        "train_seconds": seconds,
        # The median: some steps compile.
        "steps_per_second": float(1 / np.median(log.seconds)),
        "parameters": model.count_params(),
        "multiplications": counted(model, settings.get("sequence_length")),
        "peak_memory_bytes": peak_memory(),
    }


def card(model, spec, use, score):
    """Returns the text about a preset, with code that loads and uses it."""
    return CARD.format(
        variant=spec["variant"],
        command=spec["command"],
        name=spec["name"],
        model=type(model).__name__,
        settings=json.dumps(spec["record"]["settings"], indent=1),
        preset=os.path.relpath(spec["preset"], spec["folder"]),
        code=own.registration(spec["variant"]),
        use=use,
        score=score,
    )


def save(model, spec, card):
    """Saves a model as a preset with a card, which replace older ones."""
    folder = pathlib.Path(spec["preset"])
    folder.parent.mkdir(parents=True, exist_ok=True)
    # On a full disk, HDF5 may end the process.
    room = 4 * model.count_params() + 2**20
    if shutil.disk_usage(folder.parent).free < room:
        reason = os.strerror(errno.ENOSPC)
        raise OSError(errno.ENOSPC, reason, str(folder))
    model.save_to_preset(folder)
    with writing(folder / "README.md") as file:
        file.write(card)


def counted(model, length):
    """Multiplications of a sample, or `None` if they cannot be counted."""
    with contextlib.suppress(ValueError, TypeError):
        return int(sum(multiplications(model, length, length).values()))


def peak_memory():
    """The largest resident set of this process so far, in bytes."""
    with contextlib.suppress(OSError):
        status = pathlib.Path("/proc/self/status").read_text("utf-8")
        return int(status.split("VmHWM:")[1].split()[0]) * 1024
    return None


def message(error):
    """Returns an error in words, without the arguments that Keras appends."""
    text = str(error).partition("\n\nArguments received by ")[0]
    text = re.sub(r"\x1b\[\d*m", "", text)  # without Keras' bold face
    return f"{type(error).__name__}: {text}"


def main():
    """Executes the spec on standard input; returns the exit status."""
    spec = json.loads(sys.stdin.readline())
    # Libraries may print, so events have a separate descriptor.
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def emit(event):
        print(json.dumps(event), file=events, flush=True)

    def end_with_parent():
        while os.read(0, 1024):  # until the parent process ends
            pass
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        result = train(spec, emit)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in DISK:
            emit({"stop": str(error)})
        else:
            traceback.print_exc()
            emit({"error": message(error)})
        return 1
    emit({"result": result})
    events.close()
    return 0


if __name__ == "__main__":
    os._exit(main())  # libraries may wait for their threads
