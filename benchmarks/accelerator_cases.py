"""What the kit measures, in the order of its worth, and its files.

A file holds what one backend did on one device, with one set of versions and
one state of the sources; it is whole at any time. Imports no backend.
"""

import datetime
import hashlib
import importlib.util
import itertools
import json
import pathlib
import re
import subprocess
import sys
from typing import Any, NamedTuple

import measuring

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "benchmarks" / "records"
# What measurements depend on. Who changes one of these measures anew.
IDENTITY = ("backend", "device", "platform", "versions", "sources", "small")
BASELINE = "MultiHeadAttention"
PARTS = ("contract", "layers", "training", "generation", "memory")
BACKENDS = ("torch", "jax", "tensorflow")
WAYS = ("eager", "compiled")
LAYERS = (
    *(BASELINE, "R", "V", "R+V", "D+V", "D", "FR"),
    *("local(window=64)", "longformer(window=64)", "linear"),
    "light_conv(width=7)",
)
# PyTorch's compiler takes many seconds for each: those that goals name.
COMPILED = LAYERS[:5]
TRAINED = (BASELINE, "R", "V", "R+V", "D+V")
GENERATORS = ("GPT2CausalLM", "V", "R", "R+V")
REMEMBERED = (BASELINE, "R", "V", "R+V", "D+V", "local(window=64)")
SIZES = {"width": 512, "heads": 8}


class Case(NamedTuple):
    """What is measured in one go.

    Fields:
        part: String, one of `PARTS`.
        backend: String, one of `BACKENDS`.
        way: `"eager"` or `"compiled"`.
        names: Tuple of contenders. All others are compared with the first.
        shape: Dictionary of what else tells it from other cases.
        seconds: Float, the most that it may take.
        alone: Whether each contender needs a process of its own.
    """

    part: str
    backend: str
    way: str
    names: tuple
    shape: dict[str, Any]
    seconds: float
    alone: bool = False

    def key(self, name):
        """What tells the row of a contender from all others, a dictionary."""
        return {"part": self.part, "way": self.way, **self.shape, "name": name}

    def title(self):
        said = " ".join(f"{key} {value}" for key, value in self.shape.items())
        return f"{self.backend} {self.way}, {self.part}: {said}"


def text(key):
    """A key as a string that is the same for equal keys."""
    return json.dumps(key, sort_keys=True)


def ways(backend):
    """How a backend runs layers: PyTorch as operations or as programs."""
    return WAYS if backend == "torch" else WAYS[1:]


def plan(backends, small=False):
    """All cases, those first that tell most: a list.

    The contract, then what goals are stated for (T 1024, bfloat16) and a
    model, texts, memory; then the layers' other lengths and dtypes.

    Args:
        backends: Sequence of strings.
        small: Whether sizes are those of a test.
    """
    # The tests themselves are part of `make test`: of them a few will do.
    tests = "-k=plain-float32-R" if small else ""
    contract = ("contract",)
    every = [_case("contract", b, contract, 240, tests=tests) for b in backends]
    if small:
        return every + [x for b in backends for x in _small(b)]
    both = [(b, way) for b in backends for way in ways(b)]
    both.sort(key=("torch", "compiled").__eq__)  # it takes longest
    goals = 1024, "bfloat16"
    every += _layers(both, *goals, ["training"])
    trained = [_training(*one) for one in both]
    quick = [case for case in trained if case.names == TRAINED]
    every += quick
    every += _layers(both, *goals, ["inference"])
    texts = {"blocks": 6, "length": 128, "batch": 8, **SIZES}
    texts |= {"vocabulary": 8000, "dtype": "bfloat16"}
    every += [
        _case("generation", b, GENERATORS, 120, **texts) for b in backends
    ]
    layer = {"length": 4096, "batch": 2, **SIZES, "dtype": "bfloat16"}
    layer |= {"mask": "plain", "mode": "training"}
    every += [_case("memory", b, REMEMBERED, 60, **layer) for b in backends]
    every += [case for case in trained if case not in quick]
    rest = [(256, "bfloat16"), (4096, "bfloat16")]
    rest += [(length, "float32") for length in (1024, 256, 4096)]
    for length, dtype in rest:
        every += _layers(both, length, dtype, ["training", "inference"])
    return every


def _case(part, backend, names, seconds, way=None, **shape):
    way = way or ways(backend)[0]
    return Case(part, backend, way, names, shape, seconds, part == "memory")


def _layers(both, length, dtype, modes):
    """Cases of one shape: plain and padded, of each backend and way."""
    shape = {"length": length, "batch": 8192 // length, **SIZES, "dtype": dtype}
    every = []
    for mode, mask, (backend, way) in itertools.product(
        modes, ("plain", "padded"), both
    ):
        names = COMPILED if (backend, way) == ("torch", "compiled") else LAYERS
        seconds = 120 if way == "compiled" else 40
        own = {**shape, "mask": mask, "mode": mode}
        every.append(_case("layers", backend, names, seconds, way, **own))
    return every


def _training(backend, way):
    names, seconds = TRAINED, 150
    if (backend, way) == ("torch", "compiled"):  # minutes for each
        names, seconds = TRAINED[:2], 240
    shape = {"blocks": 12, "length": 512, "batch": 16, **SIZES}
    shape |= {"vocabulary": 8000, "dtype": "mixed_bfloat16", "steps": 8}
    return _case("training", backend, names, seconds, way, **shape)


def _small(backend):
    """A little of each part, of a few numbers each."""
    names = (BASELINE, "R", "local(window=2)")
    sizes = {"length": 8, "batch": 2, "width": 8, "heads": 2}
    sizes["dtype"] = "float32"
    model = {"blocks": 1, **sizes, "vocabulary": 8000}
    texts = {**model, "length": 20}
    plain = {**sizes, "mask": "plain", "mode": "inference"}
    padded = {**sizes, "mask": "padded", "mode": "training"}
    return [
        _case("layers", backend, names, 60, **plain),
        _case("layers", backend, names, 60, **padded),
        _case("training", backend, names[:2], 60, **model, steps=1),
        _case("generation", backend, ("GPT2CausalLM", "R"), 60, **texts),
        _case("memory", backend, ("R",), 60, **plain),
    ]


# --- the contract ---


def tested(option, variables, seconds):
    """What pytest says of the tests in tests/accelerator, a row's fields."""
    if importlib.util.find_spec("pytest") is None:
        return {"skipped": "pytest is not installed"}
    words = "pytest tests/accelerator -q -rfE -m accelerator"
    arguments = [*words.split(), "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", *arguments, *filter(None, [option])],
        cwd=ROOT,
        env=variables,
        timeout=seconds,
        capture_output=True,
        text=True,
    )
    lines = (done.stdout + done.stderr).strip().splitlines()
    last = lines[-1] if lines else "pytest said nothing"
    pairs = re.findall(r"(\d+) (passed|failed|skipped|error)", last)
    counts = {kind: int(number) for number, kind in pairs}
    if not counts:
        return {"error": f"no test ran: {last[:300]}"}
    names = r"^(?:FAILED|ERROR) (?:.*?::)?(.*?)(?: - .*)?$"
    return {
        "values": {
            "passed": counts.get("passed", 0),
            "failed": counts.get("failed", 0) + counts.get("error", 0),
            "skipped": counts.get("skipped", 0),
            "failures": re.findall(names, done.stdout, re.MULTILINE)[:50],
        }
    }


# --- files ---


class Record:
    """The rows of one file; each is on disk before the next is measured.

    A row is a case's key with one of `values`, `skipped` and `error`.

    Args:
        folder: Path of the folder of records.
        head: Dictionary of the fields of `IDENTITY`, and `commit`.
    """

    def __init__(self, folder, head):
        identity = json.dumps({x: head[x] for x in IDENTITY}, sort_keys=True)
        digest = hashlib.sha256(identity.encode()).hexdigest()[:8]
        device = re.sub(r"[^a-z0-9]+", "-", head["device"].lower()).strip("-")
        name = f"{device}_{head['backend']}_{digest}.json"
        self.path = pathlib.Path(folder) / name
        self.content = {"schema": 1, **head, "date": today(), "rows": []}
        if self.path.exists():
            self.content = json.loads(self.path.read_text("utf-8"))
        self.rows = {key_of(row): row for row in self.content["rows"]}

    def has(self, key):
        """Whether there is a row with a case's key."""
        return text(key) in self.rows

    def add(self, key, **found):
        """Puts a row where an older one of the same key was."""
        self.rows[text(key)] = {**key, **found, "date": today()}
        self.content["rows"] = [*self.rows.values()]
        with measuring.writing(self.path) as file:
            json.dump(self.content, file, indent=1)
            file.write("\n")


def key_of(row):
    """The key of a row, as a string."""
    found = ("values", "skipped", "error", "date")
    return text({name: x for name, x in row.items() if name not in found})


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
    try:
        head, changed = (
            subprocess.run(
                ["git", "-C", str(ROOT), *arguments],
                capture_output=True,
                text=True,
                check=True,
            ).stdout.strip()
            for arguments in (
                ["rev-parse", "--short=12", "HEAD"],
                ["status", "--porcelain", "keras_synth", "benchmarks/*.py"],
            )
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + ("+" if changed else "")
