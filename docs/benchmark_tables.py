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
PACKAGES = {"keras": "Keras", **BACKENDS}
# How a column says a key's value: "T 256".
LETTERS = {"length": "T", "batch": "B", "heads": "H", "cores": "cores:"}
UNBROKEN = "\N{NO-BREAK SPACE}"
SHOWN = ("setting", "table", "source", "command")
OPTIONS = ("rows", "where", "columns", "apart", "across", "down", "show")


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
            `where`, `key=value` pairs; `columns`, fields; `apart`, `across`,
            `down`, keys instead of the record's own; `show`, of `setting`,
            `table`, `source` and `command`. Items are separated by `;`.
    """
    content = records.load(name)
    check(content, options)
    lists = {key: split(text) for key, text in options.items()}
    where = dict(pair.split("=", 1) for pair in lists.pop("where", []))
    shown = lists.pop("show", SHOWN)
    layout = {**content.get("table", {}), **lists}
    parts = {
        "setting": lambda: [content["setting"], ""],
        "table": lambda: tables(content, where, layout),
        "source": lambda: source(name, content),
        "command": lambda: command(content),
    }
    return "\n".join(line for part in shown for line in parts[part]())


def check(content, options):
    """Refuses what a mark asks for and is not there."""
    fields = [x.partition(".")[0] for x in split(options.get("columns", ""))]
    for said, found, known in (
        ("The options of a mark are", options, OPTIONS),
        ("show: one of", split(options.get("show", "")), SHOWN),
        (f"'{content['title']}' has the fields", fields, content["fields"]),
    ):
        unknown = [item for item in found if item not in known]
        if unknown:
            raise ValueError(f"{said} {[*known]}. Received: {unknown}")


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


def tables(content, where, layout):
    """A table for each value of the keys in `apart`."""
    rows = records.select(content, where)
    names = layout.get("rows")
    if names:
        order = {name: place for place, name in enumerate(names)}
        missing = order.keys() - {row["name"] for row in rows}
        if missing:
            raise ValueError(f"'{content['title']}' has no {sorted(missing)}")
        rows = [row for row in rows if row["name"] in order]
        rows.sort(key=lambda row: order[row["name"]])
    if not rows:
        raise ValueError(f"'{content['title']}' has no rows with {where}")
    apart = layout.get("apart", [])
    lines = []
    for caption in unique(labels(row, apart) for row in rows):
        own = [row for row in rows if labels(row, apart) == caption]
        if any(caption):
            lines += [f"**{', '.join(caption)}**", ""]
        lines += [*table(content["fields"], own, layout), ""]
    return lines


def table(fields, rows, layout):
    down, across = layout.get("down", ["name"]), layout.get("across", [])
    columns = layout.get("columns", [*fields])
    if across:
        heads, cells = crossed(fields, rows, across, columns)
    else:
        heads, cells = flat(fields, rows, columns)
    lines = {}
    for row, found in zip(rows, cells, strict=True):
        line = lines.setdefault(labels(row, down), {})
        twice = line.keys() & found.keys()
        if twice:
            place = ", ".join([*labels(row, down), *sorted(twice)])
            raise ValueError(
                f"There are two rows for {place}; tell them apart by more keys"
            )
        line.update(found)
    yield line_of([*("" for _ in down), *heads.values()])
    yield "|---" * len(down) + "|--:" * len(heads) + "|"
    for label, line in lines.items():
        yield line_of([*label, *(line.get(column, "") for column in heads)])


def line_of(texts):
    return "|" + "|".join(f" {text} " if text else " " for text in texts) + "|"


def crossed(fields, rows, across, columns):
    """Columns are values of keys; a cell is the first field that a row has."""
    heads, cells = {}, []
    for row in rows:
        place = ", ".join(labels(row, across))
        heads[place] = place
        key = next(field for field in columns if field in row)
        field, found = fields[key], row[key]
        text = cell(field, found)
        if field.get("kind") == "seeds" and len(found) > 1:
            text += f" ({each(field, found)})"
        cells.append({place: text})
    return heads, cells


def flat(fields, rows, columns):
    """Columns are fields; one with several seeds has a column for each, too.

    A column `field.each` is that alone, `field.mean` the other.
    """
    heads, cells = {}, [{} for _ in rows]
    for column in columns:
        key, _, part = column.partition(".")
        field, ways = fields[key], {}
        if part != "each":
            heads[key], ways[key] = field["title"], cell
        if field.get("kind") == "seeds" and part != "mean":
            single = f"{key}.each"
            title = f"{field['title']}, each seed" if part else "each seed"
            heads[single], ways[single] = title, each
        for row, found in zip(rows, cells, strict=True):
            if key in row:
                found |= {
                    place: way(field, row[key]) for place, way in ways.items()
                }
    return heads, cells


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
    if field["kind"] != "seeds":
        return each(field, found)
    text = records.plain(records.PARTS["mean"](found), digits)
    if len(found) > 2:
        text += f" ±{records.plain(records.PARTS['error'](found), digits)}"
    return text


def each(field, found):
    space = ", " if field["kind"] == "runs" else " "
    return space.join(records.plain(x, field["digits"]) for x in found)


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


def unique(values):
    return [*dict.fromkeys(values)]
