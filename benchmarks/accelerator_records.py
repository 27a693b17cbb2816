"""What was measured on a device: JSON files that are whole at any time.

A file holds what one backend did on one device, with one set of versions and
one state of the sources. Its `schema` says what its fields mean; files of
another are refused. Imports no backend.
"""

import datetime
import hashlib
import json
import pathlib
import re
import subprocess

import accelerator_cases

from keras_synth.compare.files import writing

SCHEMA = 1
ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "benchmarks" / "records"
# What measurements depend on. Who changes one of these measures anew.
IDENTITY = ("backend", "device", "platform", "versions", "sources", "small")


class Record:
    """The rows of one file; each is on disk before the next is measured.

    A row is a case's key with one of `values`, `skipped`, `error` and
    `unfinished`, the seconds that were too few for it.

    Args:
        folder: Path of the folder of records.
        head: Dictionary of the fields of `IDENTITY`, and `commit`.
    """

    def __init__(self, folder, head):
        self.path = pathlib.Path(folder) / file_name(head)
        self.content = {"schema": SCHEMA, **head, "date": today(), "rows": []}
        if self.path.exists():
            self.content = load(self.path)
        self.rows = {key_of(row): row for row in self.content["rows"]}

    def has(self, key, seconds):
        """Whether there is nothing to gain by measuring it again.

        Args:
            key: Dictionary, a case's key.
            seconds: Float, how long it may take now.
        """
        row = self.rows.get(accelerator_cases.text(key))
        return row is not None and row.get("unfinished", seconds) >= seconds

    def add(self, key, **found):
        """Puts a row in the place of what is known of the same."""
        row = {**key, **found, "date": today()}
        self.rows[accelerator_cases.text(key)] = row
        self.content["rows"] = [*self.rows.values()]
        with writing(self.path) as file:
            json.dump(self.content, file, indent=1)
            file.write("\n")


def load(path):
    """Returns a file's content; ends the program if its schema is another."""
    try:
        content = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        schema = content["schema"]
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise SystemExit(
            f"{path} is no record of benchmarks/accelerator.py: "
            f"{type(error).__name__}: {' '.join(str(error).split())}"
        ) from error
    if schema != SCHEMA:
        raise SystemExit(
            f"{path} has records of another version; move it elsewhere, and "
            f"measure again. Expected: schema {SCHEMA}. Received: {schema!r}"
        )
    return content


def load_all(folder):
    """The contents of all files of a folder, by their names."""
    paths = sorted(pathlib.Path(folder).glob("*.json"))
    return {path.name: load(path) for path in paths}


def key_of(row):
    """The key of a row, as a string."""
    found = ("values", "skipped", "error", "unfinished", "date")
    key = {name: value for name, value in row.items() if name not in found}
    return accelerator_cases.text(key)


def file_name(head):
    """The same name for the same device, versions and sources."""
    identity = json.dumps({x: head[x] for x in IDENTITY}, sort_keys=True)
    digest = hashlib.sha256(identity.encode()).hexdigest()[:8]
    device = re.sub(r"[^a-z0-9]+", "-", head["device"].lower()).strip("-")
    return f"{device}_{head['backend']}_{digest}.json"


def today():
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def sources():
    """A digest of the package and of what measures it."""
    digest = hashlib.sha256()
    folders = [ROOT / "keras_synth", ROOT / "benchmarks"]
    for path in sorted(p for each in folders for p in each.rglob("*.py")):
        digest.update(str(path.relative_to(ROOT)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def commit():
    """The checkout's commit, with `+` where files differ; `None` elsewhere."""
    head = _git("rev-parse", "--short=12", "HEAD")
    changed = _git("status", "--porcelain", "keras_synth", "benchmarks/*.py")
    return head and head + ("+" if changed else "")


def _git(*arguments):
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
