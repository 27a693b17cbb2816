"""The text of a file, and its lines."""

from pathlib import Path

from keras_synth.datasets.files import decode, find_files, read_bytes


def one_file(path, name):
    """Returns the path of a file, or of the one called `name` in a folder.

    Args:
        path: String or path-like, the file or the folder.
        name: String. In a folder, `name` with `.gz` at its end counts, too.
    """
    path = Path(path)
    return path if path.is_file() else find_files((path,), name)[0]


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
