"""Runs scripts, in this process or in another."""

import contextlib
import io
import os
import runpy
import subprocess
import sys
from typing import NamedTuple
from unittest import mock

from places import HELPERS


class Done(NamedTuple):
    """The result of a script: its status and outputs."""

    returncode: int
    stdout: str
    stderr: str


def done(call, columns):
    """The result of a function that is called like a program."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, COLUMNS=str(columns)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            status = call() or 0
        except SystemExit as stop:
            status = stop.code or 0
    if isinstance(status, str):  # Python's output for `sys.exit("text")`
        err.write(f"{status}\n")
        status = 1
    return Done(status, out.getvalue(), err.getvalue())


def run_script(path, *arguments):
    """Runs the script `path`, called with `arguments`, for 80 columns.

    In this process: others import for seconds first.
    """

    def call():
        runpy.run_path(str(path), run_name="__main__")

    with mock.patch.object(sys, "argv", [str(path), *map(str, arguments)]):
        return done(call, 80)


def run_helper(name, *arguments, **environment):
    """Runs a script of this folder in a process, and returns its output."""
    done = subprocess.run(
        [sys.executable, HELPERS / name, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout
