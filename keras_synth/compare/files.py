"""Atomic writing, and short names of contents."""

import contextlib
import hashlib
import json
import os
import pathlib
import secrets


@contextlib.contextmanager
def writing(path, mode="w"):
    """Opens a file that gets its name only when it is complete.

    An error removes the unfinished file, does not change `path`, and names it.
    If the process is killed, a hidden file `*-partial` stays. Missing folders
    are made. Text is UTF-8 with unchanged line ends.
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


def digest(*contents):
    """Returns a short name of JSON contents."""
    text = json.dumps(contents, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def digest_of_files(paths):
    """Returns a short name of the content of files and folders."""
    found = hashlib.sha256()
    for path in map(pathlib.Path, paths):
        if not path.exists():
            raise ValueError(f"There is no file or folder {path}")
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in filter(pathlib.Path.is_file, files):
            found.update(f"{file.relative_to(path)} ".encode())
            with open(file, "rb") as opened:
                found.update(hashlib.file_digest(opened, "sha256").digest())
    return found.hexdigest()[:16]
