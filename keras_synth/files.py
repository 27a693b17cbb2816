"""`writing`: a file that is there as a whole or not at all."""

import contextlib
import os
import pathlib


@contextlib.contextmanager
def writing(path, mode="w"):
    r"""Opens a file that takes its name once all of it is on disk.

    What is written goes to a file beside it, called `<name>.partial`. If an
    error ends the writing, that one is removed and `path` is as it was.

    ```python
    with writing("results.csv") as file:
        file.write("variant,score\n")
    ```

    Args:
        path: String or path-like. Folders that are missing are made.
        mode: `"w"` for text, UTF-8 with line ends as they are, or `"wb"`.

    Yields:
        The open file.
    """
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    try:
        with open(partial, mode, **text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
