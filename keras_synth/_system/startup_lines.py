"""Importing what imports TensorFlow, without the lines that it writes."""

import contextlib
import os
import re
import sys
import tempfile

# How Abseil and glog begin lines, and what follows some of them.
_STARTUP_LINE = re.compile(
    rb"[IW]\d{4} |\d{4}-\d\d-\d\d [\d:.]+: [IW] |"
    rb"E\d{4} .*Unable to register cu|\d{4}-.*: E .*Unable to register cu|"
    rb"WARNING: All log messages before absl::InitializeLog|"
    rb"To enable the following instructions"
)


@contextlib.contextmanager
def without_startup_lines():
    """Keeps back what TensorFlow's C++ logs while it is imported.

    KerasHub imports TensorFlow wherever it is installed, on all backends, and
    Keras on its own. That writes lines about oneDNN, CUDA and the processor to
    the file descriptor of standard error; `TF_CPP_MIN_LOG_LEVEL` is read too
    late for them. So that descriptor leads to a file meanwhile, from which
    everything else, such as errors and warnings of Python, is written on
    afterwards.

    Nothing is kept back where the user has set `TF_CPP_MIN_LOG_LEVEL` to 0, or
    has imported TensorFlow before.
    """
    wanted = os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "0"
    if wanted or "tensorflow" in sys.modules:
        yield
        return
    try:
        stderr = os.dup(2)
    except OSError:  # there is no standard error
        yield
        return
    written = _temporary_file()
    if written is None:
        os.close(stderr)
        yield
        return
    with written:
        os.dup2(written.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            written.seek(0)
            for line in written:
                if not _STARTUP_LINE.match(line):
                    with contextlib.suppress(OSError):  # a full disk
                        os.write(stderr, line)
            os.close(stderr)


def _temporary_file():
    """A file to write to, or `None` where disks are full or read-only."""
    try:
        return tempfile.TemporaryFile()
    except OSError:
        return None
