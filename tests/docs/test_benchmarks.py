"""The benchmark pages show the records, all of them, and nothing else."""

import re
from xml.etree import ElementTree

import accelerator_tables as accelerators
import benchmark_charts as charts
import benchmark_records as records
import benchmark_tables as tables
import draw_benchmarks
import pytest
from places import ROOT

pytestmark = pytest.mark.once  # nothing here depends on the backend

DOCS = ROOT / "docs"
T_8 = "T\N{NO-BREAK SPACE}8"
FIELDS = {
    "score": {"title": "score", "digits": 1, "kind": "seeds"},
    "curve": {"title": "curve", "digits": 2, "kind": "series"},
    "weights": {"title": "weights", "digits": 0},
}
RECORD = {
    "schema": 1,
    "title": "A record",
    "date": "2026-11-24",
    "backend": "jax",
    "device": "A machine",
    "versions": {"jax": "0.11.2"},
    "seeds": [0, 1, 2],
    "command": "make test",
    "setting": "How it was.",
    "fields": FIELDS,
    "rows": [
        {"name": "V", "score": [1.0, 2.0, 3.0], "curve": [0.5], "weights": 1e6},
        {"name": "f(x=1)", "score": [4.0, 5.0], "weights": 20},
    ],
}
CROSSED = {
    **RECORD,
    "table": {"apart": ["mode"], "across": ["backend", "length"]},
    "fields": {
        "ratio": {"title": "ratio", "digits": 2},
        "ms": {"title": "ms", "digits": 0, "unit": "ms"},
    },
    "rows": [
        {"mode": mode, "backend": backend, "length": 8, "name": name, **value}
        for mode in ("training", "inference")
        for backend in ("jax", "torch")
        for name, value in {"MHA": {"ms": 7.4}, "R": {"ratio": 2.338}}.items()
        if (mode, backend, name) != ("inference", "torch", "R")
    ],
}


def lines(content, monkeypatch, **options):
    monkeypatch.setattr(records, "load", lambda name: content)
    return tables.of_mark("a/b.json", options).splitlines()


def test_charts_are_those_of_the_records():
    assert not draw_benchmarks.stale()


def test_every_record_is_on_a_page():
    found = set()
    for path in DOCS.rglob("*.md"):
        text = path.read_text(encoding="utf-8")
        tables.fill(text)  # can be made
        found |= tables.shown(text)
    assert found == {*records.paths()}


@pytest.mark.parametrize("name", records.paths())
def test_a_record_is_whole(name):
    content = records.load(name)
    keys = {key for row in content["rows"] for key in row}
    assert content["fields"].keys() <= keys
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", content["date"])
    assert "command" in content or "no command" in content["caveat"]
    for row in content["rows"]:
        found = [key for key in content["fields"] if key in row]
        assert found, row
        for key in found:
            kind = content["fields"][key].get("kind")
            assert isinstance(row[key], list) == bool(kind), (key, row)
            assert kind != "seeds" or len(row[key]) <= len(content["seeds"])
    if name.startswith("accuracy/"):
        assert content["seeds"]


def test_the_accuracy_page_has_only_runs_of_several_seeds():
    text = (DOCS / "benchmarks" / "accuracy.md").read_text(encoding="utf-8")
    shown = tables.shown(text)
    quotes = records.quotes()["docs/benchmarks/accuracy.md"].values()
    quoted = {quote.split()[0] for names in quotes for quote in names}
    assert shown
    for name in shown | quoted:
        assert len(records.load(name)["seeds"]) > 1, name


def test_a_table_of_fields(monkeypatch):
    found = lines(RECORD, monkeypatch)
    assert found[0] == "How it was."
    for line in (
        "| | score | each seed | curve | weights |",
        "|---|--:|--:|--:|--:|",
        "| V | 2.0 ±0.6 | 1.0 2.0 3.0 | 0.50 | 1,000,000 |",
        "| `f(x=1)` | 4.5 | 4.0 5.0 | | 20 |",
        "2026-11-24; A machine; JAX 0.11.2; seeds 0, 1, 2. Record: `a/b.json`.",
        "make test",
    ):
        assert line in found, found


def test_a_table_of_keys_has_a_table_for_each_caption(monkeypatch):
    assert lines(CROSSED, monkeypatch, show="table") == [
        "**training**",
        "",
        f"| | JAX, {T_8} | PyTorch, {T_8} |",
        "|---|--:|--:|",
        "| MHA | 7 ms | 7 ms |",
        "| R | 2.34 | 2.34 |",
        "",
        "**inference**",
        "",
        f"| | JAX, {T_8} | PyTorch, {T_8} |",
        "|---|--:|--:|",
        "| MHA | 7 ms | 7 ms |",
        "| R | 2.34 | |",
    ]


@pytest.mark.parametrize(
    "content, options, message",
    [
        (RECORD, {"rows": "V; W"}, r"has no \['W'\]"),
        (RECORD, {"show": "everything"}, "show: one of"),
        (RECORD, {"colums": "score"}, "options of a mark"),
        (RECORD, {"columns": "accuracy"}, "has the fields"),
        # Modes are not told apart.
        ({**CROSSED, "table": {"across": ["backend"]}}, {}, "two rows for MHA"),
    ],
)
def test_a_mark_of_what_is_not_there_is_an_error(
    content, options, message, monkeypatch
):
    with pytest.raises(ValueError, match=message):
        lines(content, monkeypatch, **options)


def test_a_mark_is_filled(monkeypatch):
    monkeypatch.setattr(records, "load", lambda name: RECORD)
    options = 'rows="f(x=1); V" columns="weights; score.mean"'
    mark = f'<!-- records: a/b.json {options} show="table" -->'
    page = tables.fill(f"above\n\n{mark}\n\nbelow\n")
    assert page.startswith(f"above\n\n{mark}\n\n| | weights | score |\n")
    assert "\n| `f(x=1)` | 20 | 4.5 |\n| V | 1,000,000 | 2.0 ±0.6 |\n" in page
    assert page.endswith("\n\nbelow\n")


DOTS = {
    "kind": "dots",
    "title": "a < b",
    "series": ["x", "y"],
    "rows": [["V", [[1.0, 2.0], [2.0]], ""], ["R", [[4.0], [8.0]], "end"]],
    "x": {"log": 2},
    "reference": 1,
}
AXIS = {"log": 2, "title": "of an axis"}
CURVES = {
    "kind": "curves",
    "title": "a",
    "x": AXIS,
    "y": AXIS,
    "lines": {"V": [[1, 2], [2, 4]], "R": [[1, 1], [8, 4]]},
}


@pytest.mark.parametrize("palette", charts.PALETTES)
@pytest.mark.parametrize("panel", [DOTS, CURVES], ids=lambda x: x["kind"])
def test_a_chart_says_what_it_shows(panel, palette):
    text = charts.svg([panel, panel], palette)
    assert charts.panels_of(text) == [panel, panel]
    assert charts.svg([panel, panel], palette) == text
    root = ElementTree.fromstring(text)
    said = [x.text for x in root.iterfind(".//{*}text")]
    names = {"dots": ["end", "x", "y"], "curves": ["of an axis"]}
    for name in [panel["title"], "2", "8", "V", "R", *names[panel["kind"]]]:
        assert said.count(name) >= 2, (name, said)


def marks(panel):
    (axes,) = charts.draw([panel], "light").axes
    return axes, [list(line.get_xdata()) for line in axes.lines]


def test_marks_are_at_their_values():
    axes, drawn = marks(DOTS)
    for values in ([1.0, 2.0], [2.0], [4.0], [8.0], [1.5]):  # one is a mean
        assert values in drawn
    assert axes.get_xscale() == "log"
    assert marks(CURVES)[1] == [[1, 2], [1, 8]]


# --- the page of accelerators ---


def measured(part, name, values=None, **other):
    shape = {"length": 1024, "batch": 8, "dtype": "bfloat16"}
    shape |= {"mask": "plain", "mode": "training", **other}
    found = {"values": values} if values else {"error": "Out of memory"}
    return {"part": part, "way": "eager", **shape, "name": name, **found}


ACCELERATOR = {
    "backend": "torch",
    "device": "A GPU 80GB",
    "versions": {"keras": "3.15.1", "torch": "2.13.0", "triton": None},
    "commit": "abc",
    "sources": "123",
    "small": False,
    "date": "2026-11-24",
    "rows": [
        {
            "part": "contract",
            "way": "eager",
            "name": "contract",
            "values": {"passed": 5, "failed": 1, "failures": ["test_x"]},
        },
        measured("layers", "MultiHeadAttention", {"seconds": 1e-3, "ratio": 1}),
        measured("layers", "R", {"seconds": 0.0005, "ratio": 2.0}),
        measured("layers", "V"),
        measured("memory", "R", {"bytes": 3 * 2**20}, length=4096, batch=2),
        measured("training", "R", {"tokens_per_second": 1234.0, "ratio": 1.5}),
    ],
}


def test_the_page_of_accelerators_agrees_with_the_records():
    text = accelerators.text({"a.json": ACCELERATOR})
    said = text.replace("\N{NO-BREAK SPACE}", " ").splitlines()
    for line in (
        "## A GPU 80GB, torch",
        "Contract tests: 5 passed, 1 failed (`test_x`).",
        "**eager, bfloat16, plain, training**",
        "| | T 1024, B 8 |",
        "| MultiHeadAttention | 1 ms |",
        "| R | 2.00 |",
        "| V | - |",
        "Not measured: `V` at T 1024: error: Out of memory.",
        "| R | 3 |",
        "| R | 1,234 (1.50) |",
    ):
        assert line in said, text
    for palette in charts.PALETTES:
        name = accelerators.chart_name("a.json", palette)
        assert f"benchmarks/charts/{name}" in text
    assert accelerators.text({}) == accelerators.NONE
    page = (DOCS / "accelerators.md").read_text(encoding="utf-8")
    assert page.rstrip().endswith(accelerators.MARK)


def test_the_chart_of_an_accelerator_shows_its_record(monkeypatch):
    (panel,) = accelerators.panels(ACCELERATOR)
    assert panel["title"] == "Speed of a training step: eager, plain"
    assert panel["rows"] == [["R", [[2.0]], "2.00"]]
    monkeypatch.setattr(accelerators, "load", lambda: {"a.json": ACCELERATOR})
    names = {path.name for path in draw_benchmarks.stale()}
    own = {"accelerator_a_light.svg", "accelerator_a_dark.svg"}
    # The charts of the real records are not expected now.
    assert own == {x for x in names if "accelerator_nvidia" not in x}
