"""How to repeat a comparison: command, settings, versions and dates."""

import datetime

from keras_synth.compare import repeating
from keras_synth.compare.html.markup import element, table
from keras_synth.compare.html.sections.parts import counted, section


def repetition(comparison):
    """The command, settings, versions and dates."""
    rows, task, settings = (
        comparison.rows,
        comparison.task,
        comparison.settings,
    )
    words = repeating.command(rows)
    notes = []
    if repeating.PLACEHOLDER in words:
        notes.append(
            f"{repeating.PLACEHOLDER} stands for {task.needs}, whose place "
            "these results do not say."
        )
    usual = repeating.changed(settings, task)
    names = [x for x in settings if x != "task"]
    every = [
        [name, _shown(settings[name]), "yes" if name in usual else ""]
        for name in sorted(names, key=lambda name: name not in usual)
    ]
    several = "" if len(usual) == 1 else "s"
    return section(
        "How to repeat this",
        element("pre", element("code", repeating.in_lines(words))),
        *(element("p", x, class_="note") for x in notes),
        element("h3", "Versions and dates"),
        table(["of", "what the runs say"], _versions(rows)),
        element(
            "details",
            element(
                "summary",
                f"All settings; {len(usual)} setting{several} of {len(names)} "
                f"not as usual for the task {settings['task']}",
            ),
            table(["setting", "value", "changed"], every),
        ),
    )


def _versions(rows):
    """Rows of what ran, when, and on which data."""
    versions_of = {}
    for row in rows:
        versions = row.get("versions")
        for name, version in (
            versions.items() if isinstance(versions, dict) else ()
        ):
            found = versions_of.setdefault(name, {})
            found[str(version)] = found.get(str(version), 0) + 1
    made = [
        [
            name,
            next(iter(found))
            if len(found) == 1
            else ", ".join(
                f"{version} ({counted(count, 'run')})"
                for version, count in found.items()
            ),
        ]
        for name, found in versions_of.items()
    ]
    started = [
        row["started"]
        for row in rows
        if isinstance(row.get("started"), (int, float))
    ]
    if started:
        first, last = (_date(f(started)) for f in (min, max))
        made.append(["runs began", f"{first} to {last}, UTC"])
    total = sum(row["seconds"] for row in rows)
    made.append(["time of all runs", f"{total / 60:,.1f} minutes"])
    made.append(["digest of the data", rows[0]["key"]["data"]])
    callbacks = {repeating.options(row).get("callbacks") for row in rows}
    for name in callbacks - {None}:
        made.append(["callbacks", str(name)])
    return made


def _date(seconds):
    try:
        moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (OverflowError, OSError, ValueError):
        return "an unknown date"
    return f"{moment:%Y-%m-%d %H:%M}"


def _shown(value):
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return "none" if value == "" else str(value)
