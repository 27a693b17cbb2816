"""The command `keras-synth`, its runs in this process or in others."""

import contextlib
import io
import json
import os
import subprocess
import sys
from unittest import mock

import keras
from scripts import done

from keras_synth.compare import command, runs, worker

BACKEND = keras.backend.backend()
SMALL = (
    "--num-layers 1 --num-heads 2 --hidden-dim 8 --epochs 2 --batch-size 16 "
    "--dropout 0"
).split()


def execute_here(spec, emit=lambda event: None, processes=None):
    """As `runs.execute`, without a process that imports for seconds."""
    policy = keras.config.dtype_policy()
    try:
        result = worker.train(json.loads(json.dumps(spec)), emit)
    except Exception as error:
        if isinstance(error, OSError):
            raise
        raise RuntimeError(f"failed: {error!r}") from error
    finally:
        keras.config.set_dtype_policy(policy)
    return json.loads(json.dumps(result))


def run(*arguments, execute=execute_here):
    """Runs the command; returns its status and outputs."""
    words = [*map(str, arguments)]
    if words[0] == "compare" and "--backends" not in words:
        words += ["--backends", BACKEND]
    with mock.patch.object(runs, "execute", execute):
        return done(lambda: command.main(words), 200)


def start(*arguments, **options):
    """Starts the command in a separate process."""
    code = "import keras_synth_command; keras_synth_command.main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "KERAS_BACKEND": BACKEND},
        **options,
    )


def card(preset):
    """The card of a preset, whose code is executed in a separate namespace."""
    text = (preset / "README.md").read_text()
    code = text.partition("```python")[2].partition("```")[0]
    with contextlib.redirect_stdout(io.StringIO()):
        exec(code, {})
    return text


def results(folder):
    """All results in a folder."""
    paths = sorted(folder.glob("runs/*.json"))
    return [json.loads(path.read_text()) for path in paths]
