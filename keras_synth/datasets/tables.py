"""The rows of a CSV or TSV file."""

import csv
import io
import threading

from keras_synth.datasets.files import decode, read_bytes

_FIELD_LIMIT_LOCK = threading.Lock()


def _is_tsv(path):
    return path.name.lower().removesuffix(".gz").endswith(".tsv")


def read_rows(path, delimiter=None, quoted=None):
    """Returns `(line number, fields)` of each row that is not blank.

    Args:
        path: Path of the file, gzipped or not.
        delimiter: String of one character; `None`: a tab for TSV, else a
            comma.
        quoted: Boolean, whether quotation marks may enclose a field; `None`:
            not in TSV.
    """
    if delimiter is None:
        delimiter = "\t" if _is_tsv(path) else ","
    if not isinstance(delimiter, str) or len(delimiter) != 1:
        raise ValueError(
            "delimiter must be a single character, or None to go by the name "
            f"of the file. Received: {delimiter!r}"
        )
    if quoted is None:
        quoted = not _is_tsv(path)
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
