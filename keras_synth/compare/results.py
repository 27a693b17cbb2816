"""A file of results, one JSON line per finished run."""

import dataclasses
import json
import os
import pathlib

from keras_synth._system import files
from keras_synth.compare.tasks import TASKS

# Grows when settings or scores get another meaning. Settings that are added
# later have their defaults in older results, and need no new format.
FORMAT = 5
READABLE = (3, 4, FORMAT)  # 3 held settings of all objectives
# Task -> what its score is since format 5; before, it was accuracy.
RESCORED = {name: TASKS[name].objective.score.name for name in ("cola", "mrpc")}
NUMBER = (int, float)
# What a report reads of a row, and what it must be.
KEY = {
    "settings": dict,
    "variant": str,
    "num_heads": int,
    "seed": int,
    "backend": str,
    "data": str,
}
FIGURES = {
    **dict.fromkeys("score test_loss compile_seconds".split(), NUMBER),
    **dict.fromkeys("train_seconds seconds data_share".split(), NUMBER),
    **dict.fromkeys(("validation_scores", "losses"), list),
    "parameters": int,
    "steps_per_second": (*NUMBER, type(None)),
    "multiplications": (*NUMBER, type(None)),
    "peak_memory_bytes": (*NUMBER, type(None)),
}


class Results:
    """Results on disk; each is there as a whole or not at all.

    Reading changes no file: another process may be about to write to it.

    Args:
        path: Path of the file; it is made with the first result.

    Raises:
        ValueError: A line is damaged, or of another version's format.
    """

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.rows = []
        self._whole, self._end = None, b""  # of a last line that was cut short
        if self.path.exists():
            self._read()

    def _read(self):
        content = self.path.read_bytes()
        *whole, last = content.split(b"\n")
        self.rows = [self._row(*line) for line in enumerate(whole, 1)]
        if not last:
            return
        number = len(whole) + 1
        try:
            json.loads(last.decode())
        except (ValueError, RecursionError):
            print(
                f"{self.path}, line {number}: the last result is half-written "
                "and is left out."
            )
            self._whole = len(content) - len(last)
        else:
            self.rows.append(self._row(number, last))
            self._end = b"\n"

    def _row(self, number, line):
        """The result in a line."""
        try:
            row = json.loads(line.decode())
        # Also bytes that are no text, and brackets in too many brackets.
        except (ValueError, RecursionError) as error:
            self._raise_damaged(number, error)
        self._check_format(number, row)
        self._check_key(number, row)
        self._check_score(number, row)
        return _with_current_key(row)

    def _raise_damaged(self, number, reason):
        raise ValueError(
            f"{self.path}, line {number} is damaged ({reason}). Remove "
            "that line, or name another folder with --output."
        )

    def _check_format(self, number, row):
        row = row if isinstance(row, dict) else {}
        if row.get("format") not in READABLE:
            versions = row.get("versions")
            versions = versions if isinstance(versions, dict) else {}
            raise ValueError(
                f"{self.path}, line {number}: expected results in format "
                f"{FORMAT}. Name another folder with --output. Received: "
                f"format {row.get('format')!r} of keras_synth "
                f"{versions.get('keras_synth', 'unknown')}"
            )

    def _check_key(self, number, row):
        """Raises unless a row says what it is the result of."""
        key = row.get("key")
        settings = key.get("settings", {}) if isinstance(key, dict) else None
        if not isinstance(settings, dict):
            self._raise_damaged(number, "it does not say of which run it is")
        if not isinstance(settings.get("task", ""), str):
            self._raise_damaged(number, "it does not say of which task it is")

    def _check_score(self, number, row):
        task = row["key"].get("settings", {}).get("task")
        if row["format"] < 5 and task in RESCORED:
            raise ValueError(
                f"{self.path}, line {number}: the score of {task!r} is "
                f"{RESCORED[task]} since format 5, and cannot be compared. "
                "Name another folder with --output. Received: an accuracy, in "
                f"format {row['format']}"
            )

    def check_figures(self):
        """Raises a `ValueError` unless a report can be made of every row."""
        for number, row in enumerate(self.rows, 1):
            key = row["key"]
            for name, kind in KEY.items():
                if not isinstance(key.get(name), kind):
                    self._raise_damaged(number, f"its key has no {name!r}")
            for name in ("variant", "backend"):
                if not key[name].isprintable():
                    self._raise_damaged(number, f"its {name!r} is no name")
            if "task" not in key["settings"]:
                self._raise_damaged(number, "it does not say of which task")
            if key["settings"]["task"] not in TASKS:
                continue  # a task of another version, of which none is made
            for name, kind in FIGURES.items():
                if not isinstance(row.get(name, ()), kind):
                    self._raise_damaged(number, f"it has no {name!r}")
            for name in ("validation_scores", "losses"):
                if not all(isinstance(x, NUMBER) for x in row[name] or [None]):
                    self._raise_damaged(number, f"{name!r} are no numbers")

    def __contains__(self, key):
        return any(row["key"] == key for row in self.rows)

    def append(self, row):
        """Adds a result and waits until it is on disk.

        Raises:
            UnwrittenError: It is not; the file is as it was.
        """
        row = {"format": FORMAT, **row}
        line = self._end + json.dumps(row).encode() + b"\n"
        with files.naming_what_is_unwritten(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "ab", buffering=0) as file:
                if self._whole is not None:
                    file.truncate(self._whole)
                _append(file, line)
            files.names_to_disk(self.path.parent)
        self._whole, self._end = None, b""
        self.rows.append(row)


def _append(file, line):
    """Writes a line at the end of a file, or nothing of it."""
    end = file.seek(0, os.SEEK_END)
    try:
        rest = memoryview(line)
        while rest:  # a disk that fills takes a part
            rest = rest[file.write(rest) :]
        files.to_disk(file)
    except BaseException:
        file.truncate(end)
        raise


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
