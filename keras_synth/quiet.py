"""What TensorFlow says of itself while it is imported, hidden."""

import contextlib
import importlib.util
import os
import re
import sys
import tempfile

LEVELS = "IWE"  # of a message, from the least to the most severe


def hide_greeting():
    """Has `TF_CPP_MIN_LOG_LEVEL` count while TensorFlow is imported, too.

    TensorFlow reads that variable only when its libraries are there, and they
    write to standard error before. Whatever else is written meanwhile appears
    when it has been imported. Nothing is hidden where the variable is missing
    or 0.
    """
    level = os.environ.get("TF_CPP_MIN_LOG_LEVEL", "0")
    there = any(isinstance(finder, _Finder) for finder in sys.meta_path)
    if level.isdigit() and int(level) and not there:
        sys.meta_path.insert(0, _Finder(int(level)))


class _Finder:
    """Finds TensorFlow, once, as it is found without."""

    def __init__(self, level):
        self.searching = False
        hidden = LEVELS[:level]
        self.greeting = re.compile(
            rb"WARNING: All log messages before absl::InitializeLog.*|"
            rb"[%s]\d{4} .*\.cc:\d+\] .*" % hidden.encode()
        )

    def find_spec(self, name, path=None, target=None):
        if name != "tensorflow" or self.searching:
            return None
        self.searching = True  # so that the others find it
        spec = importlib.util.find_spec(name)
        self.searching = False
        if spec is not None:
            load = spec.loader.exec_module

            def load_quietly(module):
                sys.meta_path.remove(self)
                with _without_lines(self.greeting):
                    load(module)

            spec.loader.exec_module = load_quietly
        return spec


@contextlib.contextmanager
def _without_lines(pattern):
    """Keeps lines from standard error, also those that C++ writes."""
    with tempfile.TemporaryFile() as written, contextlib.ExitStack() as after:
        try:
            before = os.dup(2)
        except OSError:  # there is no standard error
            yield
            return
        os.dup2(written.fileno(), 2)
        after.callback(_pass_on, written, pattern)
        after.callback(os.close, before)
        after.callback(os.dup2, before, 2)
        yield


def _pass_on(written, pattern):
    written.seek(0)
    for line in written:
        if not pattern.fullmatch(line.rstrip(b"\n")):
            os.write(2, line)
