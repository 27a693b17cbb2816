"""Points at which a file is written, and what may happen at one of them.

`watch` replaces what Python writes files with, in this process alone: the
harness forks one for each case.
"""

import builtins
import errno
import io
import os
import pathlib
import signal

import h5py


class Points:
    """Counts the points of writing in a folder, and acts at one of them.

    Args:
        folder: Path; what is written elsewhere does not count.
        target: Integer, the point to act at, from 0; -1 for none.
        act: Function of this object, `kill` or `fill`.
    """

    def __init__(self, folder, target=-1, act=None):
        self.folder = pathlib.Path(folder).resolve()
        self.target, self.act = target, act
        self.kinds, self.full = [], False

    def holds(self, path):
        if isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}")
        path = pathlib.Path(os.path.abspath(os.fsdecode(path)))
        return path.is_relative_to(self.folder)

    def reach(self, kind):
        number = len(self.kinds)
        self.kinds.append(kind)
        if number == self.target:
            self.act(self)
        elif self.full and kind not in ("remove", "close", "truncate"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def kill(points):
    """Ends this process as if the power had gone."""
    os.kill(os.getpid(), signal.SIGKILL)


def fill(points):
    """The disk is full from now on."""
    points.full = True
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class _Raw(io.FileIO):
    """A file whose every write is a point: before, and half-way."""

    points = None

    def write(self, data):
        self.points.reach("write")
        data = bytes(data)
        if self.points.target == len(self.points.kinds):
            super().write(data[: len(data) // 2])
        self.points.reach("half a write")
        return super().write(data)

    def truncate(self, size=None):
        self.points.reach("truncate")
        return super().truncate(size)


def _opening(points, original):
    raw_class = type("Raw", (_Raw,), {"points": points})

    def opened(file, mode="r", buffering=-1, *args, **kwargs):
        writes = {*mode} & {*"wax+"}
        if not writes or isinstance(file, int) or not points.holds(file):
            return original(file, mode, buffering, *args, **kwargs)
        points.reach("create")
        raw = raw_class(file, mode.replace("b", "").replace("t", ""))
        if buffering == 0:
            return raw
        buffer = (io.BufferedRandom if "+" in mode else io.BufferedWriter)(raw)
        if "b" in mode:
            return buffer
        names = ("encoding", "errors", "newline")
        text = dict(zip(names, args, strict=False)) | kwargs
        return io.TextIOWrapper(buffer, **text)

    return opened


def _before(points, module, name, kind, at=0):
    """Makes a function of `os` a point, by its argument at a place."""
    original = getattr(module, name)

    def replaced(*args, dir_fd=None, **kwargs):
        path = args[at]
        if dir_fd is not None:
            path = f"/proc/self/fd/{dir_fd}/{os.fsdecode(path)}"
            kwargs["dir_fd"] = dir_fd
            held = points.holds(dir_fd)
        else:
            held = points.holds(path)
        if held:
            points.reach(kind)
        return original(*args, **kwargs)

    setattr(module, name, replaced)


def watch(points):
    """Makes all that Python writes in a folder pass the points."""
    builtins.open = io.open = _opening(points, io.open)
    for name in ("replace", "rename", "link"):
        _before(points, os, name, "rename", at=1)
    for name in ("unlink", "remove", "rmdir"):
        _before(points, os, name, "remove")
    _before(points, os, "mkdir", "create")
    _before(points, os, "fsync", "flush")
    create, close = h5py.File.__init__, h5py.File.close

    def init(self, name, mode="r", *args, **kwargs):
        named = isinstance(name, (str, os.PathLike))
        if mode != "r" and named and points.holds(name):
            points.reach("create")
        create(self, name, mode, *args, **kwargs)

    def end(self):
        if self and self.mode != "r" and points.holds(self.filename):
            points.reach("write")
        close(self)

    h5py.File.__init__, h5py.File.close = init, end
