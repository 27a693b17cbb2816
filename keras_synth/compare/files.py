"""Files that are there as a whole or not at all."""

import contextlib
import errno
import os
import pathlib
import secrets
import shutil
import tempfile


@contextlib.contextmanager
def writing(path, mode="w"):
    r"""Opens a file that takes its name once all of it is on disk.

    Content goes to a hidden file beside it, which an error removes: `path` is
    then as it was. If the process is killed, that file stays and can be
    deleted.

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
        OSError: It cannot be written; the error names `path`.
    """
    path = pathlib.Path(path)
    partial = path.with_name(
        f".{path.name[:40]}-{secrets.token_hex(4)}-partial"
    )
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(partial, mode, **text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


@contextlib.contextmanager
def folder_beside(path, room=0):
    """A temporary folder on the disk of a path, removed at the end.

    Args:
        path: String or path-like. Folders above it that are missing are made.
        room: Integer, the bytes about to be written. HDF5 may end the process
            where a disk turns out to be full.

    Yields:
        The folder's path.
    """
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    start = f".{path.name[:40]}-"
    with tempfile.TemporaryDirectory("-partial", start, path.parent) as folder:
        if shutil.disk_usage(folder).free < room:
            reason = os.strerror(errno.ENOSPC)
            raise OSError(errno.ENOSPC, reason, str(path))
        yield pathlib.Path(folder)
