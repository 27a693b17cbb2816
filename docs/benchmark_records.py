"""Records of benchmarks, and the numbers of them that pages quote.

    python docs/benchmark_records.py    # writes the quoted numbers into pages

`benchmarks/records/README.md` describes the files.
"""

import json
import pathlib
import re
import shlex
import statistics
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "benchmarks" / "records"
NUMBER = r"(-?\d[\d,]*(?:\.\d+)?)"
PARTS = {
    "mean": statistics.fmean,
    "error": lambda x: statistics.stdev(x) / len(x) ** 0.5,
    "least": min,
    "greatest": max,
    "spread": lambda x: max(x) - min(x),
}


def paths():
    """Names of all records like `accuracy/imdb.json`, without the kit's."""
    return sorted(
        path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("*/*.json")
    )


def load(name):
    """Returns the content of a record, for a name like `accuracy/imdb.json`.

    Names without a folder are those of benchmarks/accelerator.py.

    Raises:
        ValueError: If the record does not exist.
    """
    path = FOLDER / name
    if not path.exists():
        raise ValueError(
            f"Expected the name of a record in {FOLDER.name}/, like "
            f"'accuracy/imdb.json'. Received: {name!r}"
        )
    content = json.loads(path.read_text(encoding="utf-8"))
    if "/" not in name:
        content["title"] = f"{content['device']}, {content['backend']}"
        for row in content["rows"]:
            row |= row.get("values", {})
            if "seconds" in row:
                row["milliseconds"] = 1e3 * row["seconds"]
    return content


def select(content, wanted):
    """The rows whose keys have all the values of a dictionary of strings."""
    known = {key for row in content["rows"] for key in row}
    unknown = wanted.keys() - known
    if unknown:
        raise ValueError(
            f"'{content['title']}' has the keys {sorted(known)}. "
            f"Received: {sorted(unknown)}"
        )
    return [
        row
        for row in content["rows"]
        if all(str(row.get(key)) == value for key, value in wanted.items())
    ]


def value(content, wanted, field):
    """One number: a field of the only row that is wanted.

    Args:
        content: Dictionary, a record.
        wanted: Dictionary, key -> value as a string.
        field: String, a field; of a list its mean, or, as `field.error`, its
            standard error, `.least`, `.greatest`, or `.spread`, what is
            between these.

    Raises:
        ValueError: If not exactly one row is wanted, or it lacks the field.
    """
    field, _, part = field.partition(".")
    found = [row for row in select(content, wanted) if field in row]
    if len(found) != 1:
        raise ValueError(
            f"Expected one row of '{content['title']}' with {wanted} and a "
            f"field {field!r}; add keys. Received: {len(found)} rows"
        )
    number = found[0][field]
    if isinstance(number, list):
        return PARTS[part or "mean"](number)
    return number


def quoted(text):
    """Returns the number that a quote names.

    Args:
        text: String, `FILE key=value ... FIELD`, and, if it is a difference
            or a ratio of two rows, `-` or `/` and the keys that differ.
    """
    name, *words = shlex.split(text)
    at = next((i for i, x in enumerate(words) if x in "-/"), len(words))
    *first, field = words[:at]
    content, keys = load(name), dict(x.split("=", 1) for x in first)
    number = value(content, keys, field)
    if at == len(words):
        return number
    others = dict(x.split("=", 1) for x in words[at + 1 :])
    other = value(content, keys | others, field)
    return number - other if words[at] == "-" else number / other


def plain(number, digits):
    """A number as pages show it."""
    return f"{number:,.{digits}f}"


def quotes():
    """Returns page -> phrase -> list of strings for `quoted`."""
    text = (FOLDER / "quotes.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def pattern(phrase):
    """Returns the pattern of a phrase, with a group for each number."""
    parts = [re.escape(part) for part in re.split(r"\s+", phrase)]
    return re.compile(r"\s+".join(parts).replace(r"\{\}", NUMBER))


def with_numbers(page, phrases):
    """Returns a page with the numbers of the records in its phrases.

    Each number keeps its count of digits.

    Args:
        page: String, a page.
        phrases: Dictionary, phrase -> list of strings for `quoted`.

    Raises:
        ValueError: If a phrase does not occur once.
    """
    for phrase, names in phrases.items():
        found = pattern(phrase)
        if len(found.findall(page)) != 1 or found.groups != len(names):
            raise ValueError(
                "A phrase must occur once on its page, with a record for each "
                f"number. Received: {phrase!r}"
            )
        match = found.search(page)
        for group in range(len(names), 0, -1):
            digits = len(match[group].partition(".")[2])
            text = plain(quoted(names[group - 1]), digits)
            page = page[: match.start(group)] + text + page[match.end(group) :]
    return page


if __name__ == "__main__":
    for name, phrases in quotes().items():
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        path.write_text(with_numbers(text, phrases), encoding="utf-8")
