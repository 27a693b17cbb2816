"""What is in a file: bytes, text, lines, rows. Errors name the file."""

import contextlib
import csv
import gzip
import io
import tarfile
import threading
import warnings
import zlib
from pathlib import Path

_GZIP_MARK = b"\x1f\x8b"  # no UTF-8 text starts like this
_FIELD_LIMIT_LOCK = threading.Lock()


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


def find_files(path, pattern, folder=""):
    """Returns the sorted files that match, plain ones or else zipped ones.

    Args:
        path: Path of a folder, or of one that contains it as `folder`.
        pattern: Glob pattern of a name. Names that end in `.gz` count, too.
        folder: String, the name that the folder is published with.
    """
    with naming_damage(path, "a folder"):
        list(path.iterdir())
    for place in (path / folder, path):
        for name in (pattern, f"{pattern}.gz"):
            if files := sorted(place.glob(name)):
                return files
    raise FileNotFoundError(
        f"There is no file {pattern} or {pattern}.gz in {path}. Pass the "
        f"folder that holds it. Received: {path!r}"
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


def read_text(path):
    """Returns the text of a UTF-8 file, gzipped or not, never blank."""
    path = Path(path)
    text = decode(read_bytes(path), path)
    if not text.strip():
        raise ValueError(
            f"{path}: expected a text. Pass another file. Received: "
            f"{len(text)} characters, none but white space"
        )
    return text


def read_lines(path):
    r"""Returns the lines of a UTF-8 file, gzipped or not, at least one.

    Lines end with `\n` or `\r\n`. `str.splitlines` would also split at
    characters such as U+0085 and U+2028, and lines of two files would no
    longer belong together.
    """
    lines = read_text(path).split("\n")
    if not lines[-1]:
        lines.pop()  # the last newline ends a line, and starts none
    return [line.removesuffix("\r") for line in lines]


def read_rows(path, delimiter=None, quoted=None):
    """Returns `(line number, fields)` of each row that is not blank.

    Args:
        path: Path of the file, gzipped or not.
        delimiter: String of one character; `None`: a tab for TSV, else a
            comma.
        quoted: Boolean, whether quotation marks may enclose a field; `None`:
            not in TSV.
    """
    is_tsv = path.name.lower().removesuffix(".gz").endswith(".tsv")
    if delimiter is None:
        delimiter = "\t" if is_tsv else ","
    if not isinstance(delimiter, str) or len(delimiter) != 1:
        raise ValueError(
            "delimiter must be a single character, or None to go by the name "
            f"of the file. Received: {delimiter!r}"
        )
    quoted = not is_tsv if quoted is None else quoted
    content = decode(read_bytes(path), path)
    reader = csv.reader(
        io.StringIO(content, newline=""),
        delimiter=delimiter,
        quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
        # Otherwise a forgotten quotation mark swallows the rest of the file.
        strict=True,
    )
    # The limit belongs to the process, so one reader at a time may change it.
    with _FIELD_LIMIT_LOCK:
        before = csv.field_size_limit(len(content))
        try:
            return list(_numbered_rows(path, reader))
        finally:
            csv.field_size_limit(before)


def _numbered_rows(path, reader):
    line = 1
    try:
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {line}: the row that starts here cannot be "
            f"read: {error}. Close every quoted field with a quotation "
            "mark, and double each mark inside it, or pass quoted=False. If "
            "fields are separated by another character, pass delimiter= with "
            "it."
        ) from error


def without_empty(rows, missing, skip_empty, kind, whole):
    """Returns the rows in which no field is empty.

    Args:
        rows: List of `(line number, fields)`.
        missing: List of `(path, words)`, one for each field: its file, and
            what to say if the field is empty.
        skip_empty: Boolean, whether to leave out the others, with a warning.
        kind: String, what to call rows: "rows", "pairs".
        whole: String, what to call one that is not empty.
    """
    full = [(line, fields) for line, fields in rows if _is_full(fields)]
    count, (path, _) = len(rows) - len(full), missing[0]
    if count and not skip_empty:
        line, fields = next(row for row in rows if not _is_full(row[1]))
        path, words = missing[[bool(x.strip()) for x in fields].index(False)]
        raise ValueError(
            f"{path}, line {line}: {words}. Fill it in, or pass "
            f"skip_empty=True to leave out {kind} with an empty field. "
            f"Received: {count} such {kind} of {len(rows)}"
        )
    if not full:
        raise ValueError(
            f"{path}: expected at least one {whole}. Pass another file. "
            f"Received: {count} {kind} with an empty field"
        )
    if count:
        warnings.warn(
            f"{path}: left out {count} of {len(rows)} rows, which have an "
            "empty field",
            stacklevel=3,  # at the one who called the loader
        )
    return full


def _is_full(fields):
    return all(map(str.strip, fields))


def lists(rows):
    """The columns of rows, a tuple of lists."""
    return tuple(map(list, zip(*rows, strict=True)))
