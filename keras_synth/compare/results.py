"""A file of results, one JSON line per finished run."""

import dataclasses
import json
import os
import pathlib

from keras_synth.compare.tasks import TASKS
from keras_synth.files import writing

# Grows when settings or scores get another meaning. Settings that are added
# later have their defaults in older results, and need no new format.
FORMAT = 5
READABLE = (3, 4, FORMAT)  # 3 held settings of all objectives
# Task -> what its score is since format 5; before, it was accuracy.
RESCORED = {name: TASKS[name].objective.score.name for name in ("cola", "mrpc")}


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
            self._check_score(number, row)
            rows.append(_with_current_key(row))
        else:
            if text and not text.endswith("\n"):  # cut right at its end
                self._rewrite(lines)
        return rows

    def _check_format(self, number, row):
        row = row if isinstance(row, dict) else {}
        if row.get("format") not in READABLE:
            raise ValueError(
                f"{self.path}, line {number}: expected results in format "
                f"{FORMAT}. Name another folder with --output. Received: "
                f"format {row.get('format')!r} of keras_synth "
                f"{row.get('versions', {}).get('keras_synth', 'unknown')}"
            )

    def _check_score(self, number, row):
        task = row["key"].get("settings", {}).get("task")
        if row["format"] < 5 and task in RESCORED:
            raise ValueError(
                f"{self.path}, line {number}: the score of {task!r} is "
                f"{RESCORED[task]} since format 5, and cannot be compared. "
                "Name another folder with --output. Received: an accuracy, in "
                f"format {row['format']}"
            )

    def _rewrite(self, lines):
        with writing(self.path) as file:
            file.writelines(f"{line}\n" for line in lines)

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


def _with_current_key(row):
    """The row, found by the settings that its objective has today."""
    settings = row["key"].get("settings", {})
    if settings.get("task") not in TASKS:
        return row
    own = dataclasses.fields(TASKS[settings["task"]].objective.Settings)
    missing = {x.name: x.default for x in own if x.name not in settings}
    names = {x.name for x in own} if row["format"] == 3 else settings
    kept = {name: settings[name] for name in settings if name in names}
    current = json.loads(json.dumps({**missing, **kept}))
    return {**row, "key": {**row["key"], "settings": current}}
