"""A file of results, one JSON line per finished run."""

import json
import os
import pathlib

FORMAT = 3  # grows when settings get another meaning, or new ones come


class Results:
    """Results on disk; each is there as a whole or not at all.

    Args:
        path: Path of the file; it is made with the first result.

    Raises:
        ValueError: A line is damaged, or of another version's format.
    """

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.rows = self._read() if self.path.exists() else []

    def _read(self):
        text = self.path.read_text(encoding="utf-8")
        lines, rows = text.splitlines(), []
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                if number == len(lines):
                    print(
                        f"{self.path}, line {number}: the last result is "
                        "half-written and is left out."
                    )
                    self._rewrite(lines[:-1])
                    break
                raise ValueError(
                    f"{self.path}, line {number} is damaged ({error}). Remove "
                    "that line, or name another folder with --output."
                ) from error
            self._check_format(number, row)
            rows.append(row)
        else:
            if text and not text.endswith("\n"):  # cut right at its end
                self._rewrite(lines)
        return rows

    def _check_format(self, number, row):
        found = row.get("format") if isinstance(row, dict) else None
        if found != FORMAT:
            written = row.get("versions", {}) if isinstance(row, dict) else {}
            raise ValueError(
                f"{self.path}, line {number}: expected results in format "
                f"{FORMAT}. Name another folder with --output. Received: "
                f"format {found!r} of keras_synth "
                f"{written.get('keras_synth', 'unknown')}"
            )

    def _rewrite(self, lines):
        partial = self.path.with_suffix(".partial")
        partial.write_text("".join(f"{x}\n" for x in lines), encoding="utf-8")
        partial.replace(self.path)

    def __contains__(self, key):
        return any(row["key"] == key for row in self.rows)

    def append(self, row):
        """Adds a result and waits until it is on disk."""
        row = {"format": FORMAT, **row}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.rows.append(row)
