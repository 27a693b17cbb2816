"""Writes the cheat sheet of names and options, docs/names.md.

    python docs/write_names.py

Everything between the two marks comes from the registries of the package and
from the signatures of its classes.
"""

import pathlib
import textwrap

import keras_synth  # noqa: F401  (fills the registries)
from keras_synth.attention.projections import Projections
from keras_synth.registry import SIZES, registry_of

PAGE = pathlib.Path(__file__).resolve().parent / "names.md"
BEGIN = "<!-- made by docs/write_names.py -->"
END = "<!-- end of what docs/write_names.py made -->"
# Options of most classes, which the page lists once.
SHARED = (*Projections.defaults, "dropout", "seed", "use_bias", "value_dim")
# Mixers that are a `SyntheticAttention`, and the pages about them; the kinds,
# and the modules of their classes.
PAGES = {
    "attention": "api/layers.md#keras_synth.layers.SyntheticAttention",
    "additive": "mixers/pairs.md",
    "relu": "mixers/pairs.md",
    "local": "mixers/sparse.md",
    "strided": "mixers/sparse.md",
    "big_bird": "mixers/sparse.md",
}
KINDS = {
    "synthesizer": "synthesizers",
    "pattern": "mixers.patterns",
    "normalizer": "mixers.normalizers",
    "mixer": "mixers",
}


def code(text):
    # A bar would end the cell of a table.
    escaped = text.replace("|", "&#124;")
    return f"<code>{escaped}</code>" if escaped != text else f"`{text}`"


def link(entry, module):
    """A name, linked to its class in the API."""
    if module == "mixers" and entry.name in PAGES:
        return f"[`{entry.name}`]({PAGES[entry.name]})"
    page = module.rpartition(".")[2]
    target = f"keras_synth.{module}.{entry.cls.__name__}"
    return f"[`{entry.name}`](api/{page}.md#{target})"


def options(kind, entry):
    """What a name needs, and its own options, as the text of two cells."""
    needs, own = [], []
    left_out = (*SHARED, *SIZES) if kind in ("synthesizer", "mixer") else ()
    if kind == "mixer" and entry.name in PAGES and entry.name != "attention":
        attention = registry_of(kind).entries["attention"]
        left_out += tuple(registry_of(kind).parameters(attention))
        own.append("those of `attention`")
    for name, parameter in registry_of(kind).parameters(entry).items():
        if name in ("num_heads", "synthesizers"):
            continue
        if parameter.default is parameter.empty:
            needs.append(code(name))
        elif name not in left_out:
            own.append(code(f"{name}={parameter.default!r}"))
    return ", ".join(needs), ", ".join(own)


def table(kind, module):
    lines = [["name", "needs", "options"], ["---"] * 3]
    for entry in registry_of(kind).entries.values():
        name = link(entry, module)
        if entry.letter:
            name += f", {code(entry.letter)}"
        lines.append([name, *options(kind, entry)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def text():
    """The tables of all names."""
    parts = [
        f"## {kind.capitalize()}s\n\n{table(kind, module)}"
        for kind, module in KINDS.items()
    ]
    shared = ", ".join(map(code, SHARED))
    last = (
        "The tables leave out the options that most classes share: "
        f"{shared}. Layers and blocks pass `num_heads`, `key_dim` and "
        "`max_length` on."
    )
    parts.append(textwrap.fill(last, 80))
    return "\n\n".join(parts)


def page(current):
    """The page with the tables between its marks made again."""
    before, _, rest = current.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{text()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), encoding="utf-8")
