"""A CSV file that grows by one row at a time and survives being killed."""

import csv
import os
import pathlib

from keras_synth.compare.files import writing


class Records:
    """Rows of measurements; what is there already need not be measured again.

    Args:
        path: Path of the CSV file; it is made when the first row comes.
        fields: Sequence of strings, the columns.
        key: Sequence of strings, the columns that tell rows apart.
    """

    def __init__(self, path, fields, key):
        self.path = pathlib.Path(path)
        self.fields, self.key = tuple(fields), tuple(key)
        self.rows = self._read()

    def _read(self):
        if not self.path.exists():
            return []
        text = self.path.read_text(encoding="utf-8")
        lines = text.splitlines()
        if text and not text.endswith("\n"):
            print(f"{self.path}: the last row is incomplete and is left out")
            lines.pop()
            self._replace(lines)
        rows = list(csv.DictReader(lines))
        if rows and tuple(rows[0]) != self.fields:
            raise SystemExit(
                f"{self.path} has other columns than this script writes; name "
                f"another file with --output. Expected: {self.fields}. "
                f"Received: {tuple(rows[0])}"
            )
        return rows

    def _replace(self, lines):
        with writing(self.path) as file:
            file.writelines(f"{x}\n" for x in lines)

    def __contains__(self, row):
        wanted = [str(row[name]) for name in self.key]
        return any(
            [have[name] for name in self.key] == wanted for have in self.rows
        )

    def append(self, row):
        """Adds a row and waits until it is on disk."""
        row = {name: str(row.get(name, "")) for name in self.fields}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.fields, lineterminator="\n")
            if not file.tell():
                writer.writeheader()
            writer.writerow(row)
            file.flush()
            os.fsync(file.fileno())
        self.rows.append(row)
