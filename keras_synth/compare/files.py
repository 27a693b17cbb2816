"""Atomic writing of files."""

import contextlib
import errno
import os
import pathlib
import secrets
import shutil
import tempfile


@contextlib.contextmanager
def writing(path, mode="w"):
    r"""Opens a file that gets its name only when it is complete.

    The content is written to a hidden file in the same folder. An error removes
    this file and does not change `path`. If the process is killed, the hidden
    file stays and can be deleted.

    ```python
    with writing("results.csv") as file:
        file.write("variant,score\n")
    ```

    Args:
        path: String or path-like. Missing folders are made.
        mode: `"w"` for text, UTF-8 with unchanged line ends, or `"wb"`.

    Yields:
        The open file.

    Raises:
        OSError: If the file cannot be written; the error names `path`.
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
    """Makes a temporary folder on the disk of a path.

    Args:
        path: String or path-like. Missing parent folders are made.
        room: Integer, the bytes to be written. On a full disk HDF5 may end the
            process.

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
