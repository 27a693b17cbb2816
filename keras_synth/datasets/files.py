"""Errors that name the file: missing, damaged, or of the wrong encoding."""

import contextlib
import gzip
import tarfile
import warnings
import zlib

_GZIP_MARK = b"\x1f\x8b"  # no UTF-8 text starts like this


@contextlib.contextmanager
def naming_damage(path, kind):
    """Says of a missing or damaged `kind` of file what can be done."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"There is no file or folder {path}. Check the path; a relative "
            f"one starts at the current folder. Received: {str(path)!r}"
        ) from error
    except (EOFError, gzip.BadGzipFile, tarfile.TarError, zlib.error) as error:
        raise ValueError(
            f"{path} cannot be read as {kind}. It may be cut short, damaged, "
            "or of another kind. Download it again, or pass another file."
        ) from error
    except (IsADirectoryError, NotADirectoryError) as error:
        raise ValueError(
            f"{path} is {'a folder' if path.is_dir() else 'a file'}, but "
            f"expected {kind}. Pass another path."
        ) from error


def find_files(folders, pattern):
    """Returns the sorted files of the first folder with any that match.

    Args:
        folders: Paths; those that are missing are skipped, but for the last.
        pattern: Glob pattern of a name. Names that end in `.gz` count, too.
    """
    *optional, last = folders
    with naming_damage(last, "a folder"):
        list(last.iterdir())
    for folder in (*optional, last):
        if files := sorted(folder.glob(pattern)):
            return files
        if files := sorted(folder.glob(pattern + ".gz")):
            return files
    raise FileNotFoundError(
        f"There is no file {pattern} or {pattern}.gz in {last}. Pass the "
        f"folder that holds it. Received: {last!r}"
    )


def read_bytes(path):
    """Returns the content of a file, unzipped if it is gzipped."""
    with naming_damage(path, "a gzip file"):
        content = path.read_bytes()
        if content.startswith(_GZIP_MARK):
            content = gzip.decompress(content)
    return content


def decode(content, name):
    """Returns the text in UTF-8 bytes, without a byte-order mark."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{name}, line {line}: the text is not UTF-8 ({error.reason}). "
            "Save the file as UTF-8."
        ) from error


def say_left_out(path, count, total):
    """Warns of rows that were left out, if there are any."""
    if count:
        warnings.warn(
            f"{path}: left out {count} of {total} rows, which have an empty "
            "field",
            stacklevel=4,  # at the one who called the loader
        )
