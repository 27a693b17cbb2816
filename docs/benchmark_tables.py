"""Makes the tables of the benchmark pages from records, as the site is built.

A page shows a record, benchmarks/records/accuracy/imdb.json for one, by a mark:

    <!-- records: accuracy/imdb.json rows="V; R" columns="accuracy" -->

`of_mark` lists the options.
"""

import re
import shlex

import benchmark_records as records

MARK = re.compile(r"^<!-- records: (\S+)(.*?) -->$", re.MULTILINE)

BACKENDS = {"jax": "JAX", "tensorflow": "TensorFlow", "torch": "PyTorch"}
PACKAGES = {
    "keras": "Keras",
    "keras-hub": "KerasHub",
    "hls4ml": "hls4ml",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "nncf": "NNCF",
    **BACKENDS,
}
# How a column says a key's value: "T 256".
LETTERS = {"length": "T", "batch": "B", "heads": "H", "cores": "cores:"}
UNBROKEN = "\N{NO-BREAK SPACE}"
SHOWN = ("setting", "table", "source", "command")
OPTIONS = ("rows", "columns", "show")


def fill(page):
    """Returns the Markdown of a page with tables below its marks."""

    def block(mark):
        pairs = (word.split("=", 1) for word in shlex.split(mark[2]))
        return f"{mark[0]}\n\n{of_mark(mark[1], dict(pairs))}"

    return MARK.sub(block, page)


def shown(page):
    """Returns the names of the records that a page shows."""
    return {mark[1] for mark in MARK.finditer(page)}


def of_mark(name, options):
    """Returns the Markdown below a mark.

    Args:
        name: String, a record, like `accuracy/imdb.json`.
        options: Dictionary of strings: `rows`, names in the order wanted;
            `columns`, fields, or `field.mean` without a column for each seed;
            `show`, of `setting`, `table`, `source` and `command`. Items are
            separated by `;`.
    """
    content = records.load(name)
    lists = {key: split(text) for key, text in options.items()}
    shown = lists.pop("show", SHOWN)
    fields = [x.partition(".")[0] for x in lists.get("columns", [])]
    for said, found, known in (
        ("The options of a mark are", options, OPTIONS),
        ("show: one of", shown, SHOWN),
        (f"'{content['title']}' has the fields", fields, content["fields"]),
    ):
        unknown = [item for item in found if item not in known]
        if unknown:
            raise ValueError(f"{said} {[*known]}. Received: {unknown}")
    layout = {**content.get("table", {}), **lists}
    parts = {
        "setting": lambda: [content["setting"], ""],
        "table": lambda: tables(content, layout),
        "source": lambda: source(name, content),
        "command": lambda: command(content),
    }
    return "\n".join(line for part in shown for line in parts[part]())


def split(text):
    return [item.strip() for item in text.split(";") if item.strip()]


def source(name, content):
    """Where the numbers are from, in a line."""
    versions = [
        f"{PACKAGES[package]} {version}"
        for package, version in content["versions"].items()
    ]
    facts = [content["date"], content.get("device"), ", ".join(versions)]
    seeds = content.get("seeds")
    if seeds:
        text = ", ".join(map(str, seeds))
        facts.append(
            f"one seed, {text}" if len(seeds) == 1 else f"seeds {text}"
        )
    said = "; ".join(filter(None, facts))
    lines = [f"{said}. Record: `{name}`.", ""]
    if "caveat" in content:
        lines = [f"*{content['caveat']}*", "", *lines]
    return lines


def command(content):
    """The command that repeats the measurement, folded."""
    if "command" not in content:
        return []
    return [
        '<details markdown="1"><summary>Command</summary>',
        "",
        "```shell",
        *content["command"].splitlines(),
        "```",
        "",
        "</details>",
        "",
    ]


def tables(content, layout):
    """A table for each value of the keys in `apart`."""
    rows, names = content["rows"], layout.get("rows")
    if names:
        missing = {*names} - {row["name"] for row in rows}
        if missing:
            raise ValueError(f"'{content['title']}' has no {sorted(missing)}")
        rows = [row for name in names for row in rows if row["name"] == name]
    apart, lines = layout.get("apart", []), []
    for caption in dict.fromkeys(labels(row, apart) for row in rows):
        own = [row for row in rows if labels(row, apart) == caption]
        if any(caption):
            lines += [f"**{', '.join(caption)}**", ""]
        lines += [*table(content["fields"], own, layout), ""]
    return lines


def table(fields, rows, layout):
    down, columns = layout.get("down", ["name"]), layout.get("columns", fields)
    lines, heads = {}, {}
    for row in rows:
        line = lines.setdefault(labels(row, down), {})
        for head, text in cells(fields, row, columns, layout.get("across")):
            if head in line:
                place = ", ".join([*labels(row, down), head[0]])
                raise ValueError(
                    f"There are two rows for {place}; tell them apart by more "
                    "keys"
                )
            line[head] = heads[head] = text
    if not layout.get("across"):
        keys = [column.partition(".")[0] for column in columns]
        heads = sorted(heads, key=lambda head: keys.index(head[1]))
    yield line_of([*("" for _ in down), *(title for title, _ in heads)])
    yield "|---" * len(down) + "|--:" * len(heads) + "|"
    for label, line in lines.items():
        yield line_of([*label, *(line.get(head, "") for head in heads)])


def cells(fields, row, columns, across):
    """Heads, of a title and a key, and texts of a row's cells.

    Below the values of keys in `across`, it is the first field that a row has;
    else all fields, and after a mean all seeds.
    """
    for column in columns:
        key, _, part = column.partition(".")
        if key not in row:
            continue
        text, every = cell(fields[key], row[key]), ""
        if fields[key].get("kind") == "seeds" and part != "mean":
            every = each(fields[key], row[key])
        if across:
            several = every and len(row[key]) > 1
            text += f" ({every})" if several else ""
            yield (", ".join(labels(row, across)), None), text
            return
        yield (fields[key]["title"], key), text
        if every:
            yield ("each seed", key), every


def line_of(texts):
    return "|" + "|".join(f" {text} " if text else " " for text in texts) + "|"


def cell(field, found):
    """A value as a table shows it.

    With three or more seeds their mean and its standard error.
    """
    if isinstance(found, str):
        return name_of(found)
    digits, unit = field["digits"], field.get("unit")
    if not isinstance(found, list):
        text = records.plain(found, digits)
        return f"{text} {unit}" if unit else text
    if field["kind"] == "series":
        return each(field, found)
    text = records.plain(records.PARTS["mean"](found), digits)
    if len(found) > 2:
        text += f" ±{records.plain(records.PARTS['error'](found), digits)}"
    return text


def each(field, found):
    return " ".join(records.plain(x, field["digits"]) for x in found)


def labels(row, keys):
    """What a table says of a row's keys."""
    return tuple(label(key, row[key]) for key in keys if key in row)


def label(key, found):
    if key == "backend":
        return BACKENDS.get(found, found)
    if key in LETTERS:
        return f"{LETTERS[key]}{UNBROKEN}{found}"
    return name_of(str(found))


def name_of(text):
    """A name, as code where it is written as in a program."""
    return f"`{text}`" if "=" in text else text
