"""Which process this is, and whether another one has ended."""

import functools
import hashlib
import os
import pathlib
import socket
import subprocess

PROC = pathlib.Path("/proc")


def identity():
    """Returns an id of this process for names of files.

    Returns:
        String `"<machine>-<process id>-<start>"`. The second of two processes
        that were given the same id has another start.
    """
    return f"{_machine()}-{os.getpid()}-{_start(os.getpid()) or 0}"


def has_ended(owner):
    """Whether a process has ended.

    Args:
        owner: String that `identity` returned in that process.

    Returns:
        Boolean, or `None` where that is unknown: of a process on another
        machine or in another container, and on Windows.
    """
    machine, number, start = owner.split("-")
    if machine != _machine() or os.name != "posix":
        return None
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # another user's
        pass
    if _is_zombie(number):
        return True
    now = _start(number)
    return now is not None and start not in ("0", now)


@functools.cache
def _machine():
    """Digest that identifies this machine, or container."""
    known = [socket.gethostname()]
    try:
        # Containers of one machine may share a name, but not process ids.
        known.append(os.readlink(PROC / "self" / "ns" / "pid"))
        known.append(pathlib.Path("/etc/machine-id").read_text())
    except OSError:
        pass
    return _digest(*known)


def _start(number):
    """Digest of when a process started, or `None` if unknown."""
    if not _has_proc():
        return _start_of_ps(number)
    try:
        # In ticks since the machine was booted.
        boot = (PROC / "sys/kernel/random/boot_id").read_text()
        return _digest(boot, _fields(number)[19])
    except OSError:
        return None


def _start_of_ps(number):
    command = ["ps", "-o", "lstart=", "-p", str(number)]
    same = {**os.environ, "TZ": "UTC", "LC_ALL": "C"}
    try:
        shown = subprocess.run(
            command, env=same, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return _digest(shown.stdout.strip())


def _is_zombie(number):
    """Whether a process has ended, but nobody has asked how."""
    try:
        return _has_proc() and _fields(number)[0] in "ZX"
    except OSError:
        return False


def _has_proc():
    return (PROC / "self" / "stat").exists()


def _fields(number):
    """What Linux says of a process after its name, which may be any text."""
    stat = (PROC / str(number) / "stat").read_text(errors="replace")
    return stat.rpartition(")")[2].split()


def _digest(*words):
    text = "\n".join(words).strip()
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
