"""Files and folders that are there as a whole or not at all."""

import contextlib
import errno
import os
import pathlib
import re
import secrets
import shutil
import time

from keras_synth._system import processes

# `.<name>-<process>-<random>-partial`; version 0.2 did not name the process.
_PARTIAL = re.compile(
    r"\..+?(?:-(?P<owner>[0-9a-f]{8}-\d+-[0-9a-f]+))?-\w{8}-partial"
)
# Of a process on another machine nobody knows whether it has ended.
FORGOTTEN_SECONDS = 7 * 24 * 3600
_ATTEMPTS = 100  # of making a folder that others remove
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_NOT_ALLOWED = (errno.EROFS, errno.EACCES, errno.EPERM)


class UnwrittenError(OSError):
    """A file could not be written: says which, why, and what to do."""

    reason = ""

    def __str__(self):
        return self.strerror


@contextlib.contextmanager
def writing(path, mode="w"):
    r"""Opens a file that takes its name once all of it is on disk.

    What is written goes to a hidden file beside it, of a name that no other
    process and no other thread uses. If an error ends the writing, that one
    is removed and `path` is as it was; if the process is killed, the next one
    that writes there removes it.

    ```python
    with writing("results.csv") as file:
        file.write("variant,score\n")
    ```

    Args:
        path: String or path-like. Folders that are missing are made.
        mode: `"w"` for text, UTF-8 with line ends as they are, or `"wb"`.

    Yields:
        The open file.

    Raises:
        UnwrittenError: The disk is full, or the folder must not be written.
    """
    path = pathlib.Path(path)
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    with naming_what_is_unwritten(path):
        partial = temporary(path)
        try:
            with open(partial, mode, **text) as file:
                yield file
                to_disk(file)
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        names_to_disk(path.parent)


@contextlib.contextmanager
def folder_beside(path, room=0):
    """A temporary folder on the same disk, so that renaming is possible.

    It is removed at the end; if the process is killed, by the next one that
    writes there.

    Args:
        path: String or path-like, what is to be replaced. Folders above it
            that are missing are made.
        room: Integer, the bytes that are about to be written. HDF5 may end
            the process where a disk turns out to be full.

    Yields:
        The folder's path.

    Raises:
        UnwrittenError: The disk is full, or the folder must not be written.
    """
    path = pathlib.Path(path)
    with naming_what_is_unwritten(path):
        aside = _folder_made(path)
        try:
            if shutil.disk_usage(aside).free < room:
                raise OSError(errno.ENOSPC, "")
            yield aside
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def _folder_made(path):
    """Makes a temporary folder, and those above it.

    Another process may be removing them, empty, from one step to the next.
    """
    for _ in range(_ATTEMPTS):
        aside = temporary(path)
        with contextlib.suppress(FileNotFoundError):
            aside.mkdir()
            return aside
    aside.mkdir()
    return aside


def temporary(path):
    """Returns a name beside a path that nobody else writes to.

    Makes the folders above it, and removes what killed processes have left
    beside it.
    """
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    sweep(path.parent)
    unique = f"{processes.identity()}-{secrets.token_hex(4)}"
    return path.with_name(f".{path.name[:40]}-{unique}-partial")


def sweep(folder):
    """Removes what processes that have ended left half-written in a folder.

    What a process on another machine writes is left alone for a week after
    it was last written to.

    Args:
        folder: String or path-like; there need be none.
    """
    try:
        names = [x for x in os.listdir(folder) if _PARTIAL.fullmatch(x)]
    except OSError:
        return
    for name in names:
        path = pathlib.Path(folder, name)
        owner = _PARTIAL.fullmatch(name)["owner"]
        ended = processes.has_ended(owner) if owner else None
        if ended or (ended is None and _is_forgotten(path)):
            _remove(path)


def is_partial(path):
    """Whether a file or folder is one that is being written."""
    return bool(_PARTIAL.fullmatch(pathlib.Path(path).name))


@contextlib.contextmanager
def naming_what_is_unwritten(path):
    """Turns errors of writing into an `UnwrittenError` that names a path."""
    try:
        yield
    except UnwrittenError as error:
        if not any(map(is_partial, pathlib.Path(error.filename).parents)):
            raise
        # A part of a preset: it is the whole that cannot be written.
        raise unwritten(path, error) from error
    except OSError as error:
        if not _is_near(error.filename, path):
            raise  # something else could not be read
        raise unwritten(path, error) from error
    except RuntimeError as error:
        # So says HDF5 when it closes a file.
        found = re.search(r"errno = (\d+)", str(error))
        if not found:
            raise
        raise unwritten(path, OSError(int(found[1]), "")) from error


def _is_near(place, path):
    """Whether a place is in the folder of a path, above it, or not known."""
    if not isinstance(place, str):
        return True
    place, folder = pathlib.Path(place), pathlib.Path(path).parent
    return place.is_relative_to(folder) or folder.is_relative_to(place)


def unwritten(path, error):
    """The `UnwrittenError` of a path, for an `OSError`."""
    way_out = ""
    if error.errno in _NO_ROOM:
        way_out = " Make room there."
    elif error.errno in _NOT_ALLOWED:
        way_out = " Make it writable, or name another folder."
    # What libraries say themselves may be a page.
    number = error.errno
    reason = getattr(error, "reason", str(error))
    reason = os.strerror(number) if number else reason
    made = UnwrittenError(
        number,
        f"{path} cannot be written ({reason}); what was there is as it "
        f"was.{way_out}",
        str(path),
    )
    made.reason = reason
    return made


@contextlib.contextmanager
def naming_what_is_damaged(path, kind, way_out):
    """Says of a file that cannot be read which it is, and what to do.

    Args:
        path: String or path-like.
        kind: String, what it ought to be: `"a checkpoint"`.
        way_out: String, a sentence.

    Raises:
        ValueError: In the place of any error of reading it.
    """
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"{path} cannot be read as {kind} ({reason}). {way_out}"
        ) from error


def is_full(error):
    """Whether an `OSError` says that a disk has no room left."""
    return error.errno in _NO_ROOM


def to_disk(file):
    """Waits until what has been written to an open file is on disk."""
    file.flush()
    os.fsync(file.fileno())


def names_to_disk(folder):
    """Waits until the names of a folder's files are on disk, if one can."""
    with contextlib.suppress(OSError):  # Windows opens no folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _is_forgotten(path):
    """Whether nothing in a file or folder has changed for a week."""
    try:
        times = [os.lstat(x).st_mtime for x in (path, *path.rglob("*"))]
    except OSError:  # somebody is at work there
        return False
    return max(times) + FORGOTTEN_SECONDS < time.time()


def _remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()
