"""`sole_writer`: a folder that one process at a time writes to."""

import contextlib
import json
import os
import pathlib
import secrets
import socket
import time

from keras_synth._system import files, processes

try:
    import fcntl
except ImportError:  # Windows, where no process is known to have ended
    fcntl = None

NAME = ".lock"


class HeldError(OSError):
    """Another process holds a lock: says which, and what to do."""

    def __str__(self):
        return self.strerror


@contextlib.contextmanager
def sole_writer(folder):
    """Makes this process the only one that writes to a folder.

    The file `.lock` in it says who that is. The lock of a process that has
    ended on this machine is taken over. Nothing keeps anybody from reading.

    Args:
        folder: String or path-like. It is made if it is missing.

    Raises:
        HeldError: Another process holds it.
        UnwrittenError: The disk is full, or the folder must not be written.
    """
    path = pathlib.Path(folder) / NAME
    own = {
        "process": os.getpid(),
        "host": socket.gethostname(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        "owner": processes.identity(),
        "claim": secrets.token_hex(4),  # tells locks of one process apart
    }
    is_new = not path.parent.exists()
    _take(path, own)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if holder(path) == own:
                path.unlink()
            if is_new:
                path.parent.rmdir()  # where nothing was written


def holder(path):
    """Who holds a lock: what its file says, or `None` if there is none.

    A file that says nothing, because it was damaged, is an empty dictionary.
    """
    try:
        said = json.loads(pathlib.Path(path).read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _take(path, own):
    """Makes the lock's file, which is there for one of all who try."""
    while not _claim(path, own):
        other = holder(path)
        if other == own:
            return  # a network's answer was lost: it had been made
        if other is None:
            continue  # it has just been given back
        if not _has_ended(other):
            raise HeldError(None, _describe(path, other))
        with files.naming_what_is_unwritten(path):
            _break(path, other)


def _claim(path, own):
    """Whether the lock's file could be made, whole and at once."""
    with files.folder_beside(path) as folder:
        claim = folder / NAME
        _write(claim, own)
        try:
            os.link(claim, path)
        except FileExistsError:
            return False
        except OSError:  # a disk without links: not at once, but by one alone
            try:
                _write(path, own)
            except FileExistsError:
                return False
        return True


def _write(path, own):
    with open(path, "x", encoding="utf-8") as file:
        json.dump(own, file)
        files.to_disk(file)


def _has_ended(other):
    try:
        return bool(processes.has_ended(other["owner"]))
    except (AttributeError, KeyError, ValueError):
        return False


def _describe(path, other):
    """Who holds a lock, and what to do, in a line."""
    who = "a process that is not named"
    if {"process", "host", "since"} <= {*other}:
        who = "process {process} on {host} since {since}".format(**other)
    return (
        f"{path.parent} is being written by {who}. Wait until it ends, or pass "
        f"another --output. If it has ended, remove {path}"
    )


def _break(path, other):
    """Removes the lock of a process that has ended, unless somebody has.

    All who may do so are on that process' machine, and do it in turn.
    """
    with contextlib.suppress(FileNotFoundError), open(path, "rb+") as file:
        if fcntl is not None:
            with contextlib.suppress(OSError):  # not on every network's disk
                fcntl.flock(file, fcntl.LOCK_EX)
        here = os.path.samestat(os.fstat(file.fileno()), os.stat(path))
        if here and holder(path) == other:
            path.unlink()
