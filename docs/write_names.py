"""Writes the cheat sheet of names and options, docs/names.md.

    python docs/write_names.py            # write it
    python docs/write_names.py --check    # whether it is up to date

Everything between the two marks comes from the tables of names of the package
and from the signatures of its classes.
"""

import argparse
import dataclasses
import inspect
import pathlib
import sys

PAGE = pathlib.Path(__file__).resolve().parent / "names.md"
sys.path[:0] = [str(PAGE.parent.parent)]

from keras_synth._backend.configs import parameters_of  # noqa: E402
from keras_synth._system.files import writing  # noqa: E402
from keras_synth.attention import normalizers, patterns  # noqa: E402
from keras_synth.attention.projections import Projections  # noqa: E402
from keras_synth.mixers import names as mixer_names  # noqa: E402
from keras_synth.synthesizers import names as synthesizer_names  # noqa: E402

BEGIN = "<!-- made by docs/write_names.py -->"
END = "<!-- end of what docs/write_names.py made -->"
# What the layer around a name gives, and what the page lists once for all.
GIVEN = ("num_heads", "key_dim", "max_length", "synthesizers")
SHARED = (*Projections.defaults, "dropout", "seed", "use_bias", "value_dim")


def code(text):
    # A bar would end the cell of a table.
    escaped = text.replace("|", "&#124;")
    return f"<code>{escaped}</code>" if escaped != text else f"`{text}`"


def link(name, cls, page):
    """A name, linked to its class in the API."""
    within = "mixers." if page in ("patterns", "normalizers") else ""
    module = f"keras_synth.{within}{page}"
    return f"[`{name}`](api/{page}.md#{module}.{cls.__name__})"


def options(parameters, fixed=()):
    """Parameters of a class -> those it needs, and its own options, as text."""
    needs, own = [], []
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty:
            needs.append(name)
        elif name not in (*SHARED, *GIVEN, *fixed):
            own.append(f"{name}={parameter.default!r}")
    needs = [
        name for name in needs if name not in ("num_heads", "synthesizers")
    ]
    return ", ".join(map(code, needs)), ", ".join(map(code, own))


def own_parameters(cls):
    """Arguments of a synthesizer's own class, without `self` and `**kwargs`."""
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    found = inspect.signature(cls).parameters
    return {k: v for k, v in found.items() if v.kind not in kinds}


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def synthesizer_rows():
    for name, entry in synthesizer_names._NAMES.items():
        needs, own = options(own_parameters(entry.cls), entry.fixed)
        letter = code(entry.letter) if entry.letter else ""
        yield [link(name, entry.cls, "synthesizers"), letter, needs, own]


def mixer_rows():
    for name, cls in mixer_names._MIXERS.items():
        needs, own = options(parameters_of(cls))
        page = "layers" if name == "attention" else "mixers"
        yield [link(name, cls, page), needs, own]


def pattern_rows():
    for name, (cls, words) in patterns.names.NAMES.items():
        said = {field: word for word, field in words.items()}
        fields = dataclasses.fields(cls)
        shown = []
        for field in fields:
            word = said.get(field.name, field.name)
            needed = field.default is dataclasses.MISSING
            shown.append(code(word if needed else f"{word}={field.default!r}"))
        yield [link(name, cls, "patterns"), ", ".join(shown)]


def normalizer_names():
    for name, normalizer in normalizers._KNOWN.items():
        yield link(name, type(normalizer), "normalizers")


def text():
    """The tables of all names."""
    shared = ", ".join(map(code, SHARED))
    return "\n\n".join(
        [
            "## Synthesizers",
            table(
                ["name", "letter", "needs", "options"],
                synthesizer_rows(),
            ),
            "## Patterns",
            table(["name", "options"], pattern_rows()),
            "## Normalizers",
            ", ".join(normalizer_names()) + ".",
            "## Mixers",
            table(["name", "needs", "options"], mixer_rows()),
            "Not repeated: what the layer or block gives (`num_heads`, "
            "`key_dim`, `max_length`), and what most classes share: "
            f"{shared}.",
        ]
    )


def page(current):
    """The page with what is between the marks made anew."""
    before, begin, rest = current.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{PAGE} must hold the marks {BEGIN} and {END}.")
    return f"{before}{BEGIN}\n\n{text()}\n\n{END}{after}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if it would"
    )
    check = parser.parse_args().check
    current = PAGE.read_text(encoding="utf-8")
    wanted = page(current)
    if check and wanted != current:
        sys.exit(f"{PAGE} is out of date; run python docs/write_names.py")
    if not check:
        with writing(PAGE) as file:
            file.write(wanted)


if __name__ == "__main__":
    main()
