"""The benchmark pages show the records, all of them, and nothing else."""

import re
import sys
from xml.etree import ElementTree

import pytest
from places import ROOT

sys.path.append(str(ROOT / "docs"))

import benchmark_charts as charts
import benchmark_records as records
import benchmark_tables as tables
import draw_benchmarks

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
    present = {path.name for path in draw_benchmarks.CHARTS.glob("*.svg")}
    others = {name for name in present if name.startswith("accelerator_")}
    assert present - others == {*draw_benchmarks.drawn()}


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


def test_the_accuracy_page_has_runs_of_several_seeds_alone():
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


def test_two_fields_of_seeds_have_their_own_seeds(monkeypatch):
    rows = [{"name": "V", "score": [1.0, 2.0, 3.0], "loss": [7.0, 8.0]}]
    loss = {"title": "loss", "digits": 0, "kind": "seeds"}
    both = {**RECORD, "fields": {**FIELDS, "loss": loss}, "rows": rows}
    found = lines(both, monkeypatch, show="table", columns="score; loss")
    assert found == [
        "| | score | each seed | loss | each seed |",
        "|---|--:|--:|--:|--:|",
        "| V | 2.0 ±0.6 | 1.0 2.0 3.0 | 8 | 7 8 |",
    ]


def test_a_mark_chooses_rows_columns_and_parts(monkeypatch):
    options = {"rows": "f(x=1); V", "columns": "weights; score.mean"}
    found = lines(RECORD, monkeypatch, show="table", **options)
    assert found == [
        "| | weights | score |",
        "|---|--:|--:|",
        "| `f(x=1)` | 20 | 4.5 |",
        "| V | 1,000,000 | 2.0 ±0.6 |",
    ]


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


def test_rows_of_one_place_are_refused(monkeypatch):
    with pytest.raises(ValueError, match="two rows for MHA, JAX"):
        lines(CROSSED, monkeypatch, apart="", across="backend")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"rows": "V; W"}, r"has no \['W'\]"),
        ({"where": "name=W"}, "has no rows with"),
        ({"where": "mixer=V"}, "has the keys"),
        ({"show": "everything"}, "show: one of"),
        ({"colums": "score"}, "options of a mark"),
        ({"columns": "accuracy"}, "has the fields"),
    ],
)
def test_a_mark_that_asks_for_what_is_not_there_is_refused(
    options, message, monkeypatch
):
    with pytest.raises(ValueError, match=message):
        lines(RECORD, monkeypatch, **options)


def test_a_mark_is_filled(monkeypatch):
    monkeypatch.setattr(records, "load", lambda name: RECORD)
    mark = '<!-- records: a/b.json rows="V" show="table" -->'
    page = tables.fill(f"above\n\n{mark}\n\nbelow\n")
    assert page.startswith(f"above\n\n{mark}\n\n| |")
    assert page.endswith("\n\nbelow\n")


@pytest.mark.parametrize("palette", charts.PALETTES)
def test_a_chart_puts_values_in_order(palette):
    panel = {
        "title": "a < b",
        "series": ["x", "y"],
        "rows": [("V", [[1.0], [2.0]], ""), ("R", [[4.0], [8.0]], "end")],
        "range": (1, 8),
        "ticks": [1, 8],
        "log": True,
    }
    root = ElementTree.fromstring(charts.dots("A chart", [panel], palette))
    ours = root.findall("{*}circle")[1:]  # the first is the legend's
    assert len(ours) == 2
    first, last = (float(mark.get("cx")) for mark in ours)
    width = charts.WIDTH - charts.RIGHT - charts.LEFT
    assert first == charts.LEFT
    assert last == pytest.approx(charts.LEFT + width * 2 / 3, abs=0.1)
    texts = [text.text for text in root.findall("{*}text")]
    assert {"a < b", "V", "R", "x", "y", "end", "1", "8"} <= {*texts}


@pytest.mark.parametrize("palette", charts.PALETTES)
def test_discs_are_as_large_as_the_memory(palette):
    axis = {"range": (1, 8), "ticks": [1, 8], "title": "of an axis"}
    discs = {"V": (1, 1, 400), "R": (2, 8, 100), "D": (8, 4.5, 25)}
    panel = {"title": "a", "area": "b", "x": axis, "y": axis, "discs": discs}
    root = ElementTree.fromstring(charts.costs("A chart", panel, palette))
    x, y, radii = zip(
        *(
            [float(circle.get(name)) for name in ("cx", "cy", "r")]
            for circle in root.findall("{*}circle")
        ),
        strict=True,
    )
    assert radii == pytest.approx(
        [charts.LARGEST / 2**i for i in range(3)], 0.02
    )
    assert x[2] - x[0] == pytest.approx(3 * (x[1] - x[0]), abs=0.3)  # log
    assert y[0] - y[1] == pytest.approx(2 * (y[0] - y[2]), abs=0.3)
    said = {text.text for text in root.findall("{*}text")}
    assert {"a", "b", "of an axis", "V", "R", "D"} <= said


def test_names_of_discs_lie_over_nothing():
    discs = {"first": (100, 100, 10), "second": (112, 104, 10)}
    discs |= {"third": (195, 100, 10), "edge": (5, 5, 4)}
    places = charts.labels(discs, 0, 200, 0, 200)
    boxes = {
        name: (x, y - charts.SIZE + 2.5, x + 0.55 * charts.SIZE * len(name), y)
        for name, (x, y) in places.items()
    }
    for name, (left, top, right, bottom) in boxes.items():
        assert 0 <= left < right <= 200
        assert 0 <= top < bottom <= 200
        for other, (x, y, r) in discs.items():
            apart = x + r <= left or right <= x - r
            assert apart or y + r <= top or bottom <= y - r, (name, other)


def contrast(one, other):
    """WCAG's contrast of two colours."""

    def luminance(color):
        parts = [int(color[x : x + 2], 16) / 255 for x in (1, 3, 5)]
        linear = [
            x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4
            for x in parts
        ]
        red, green, blue = linear
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(
    "palette, grounds",
    [("light", ["#ffffff"]), ("dark", ["#1e2129", "#0d1117"])],
)
def test_texts_and_marks_stand_out_in_both_palettes(palette, grounds):
    ink, muted, _, series = charts.PALETTES[palette]
    for ground in grounds:
        for color in (ink, muted, *series.split()):
            assert contrast(color, ground) >= 4.5, (color, ground)


def test_charts_have_six_lines_at_most():
    for name, svg in draw_benchmarks.drawn().items():
        root = ElementTree.fromstring(svg)
        lines = [
            line
            for line in root.findall("{*}polyline")
            if line.get("stroke-width") == "2.2"
        ]
        assert len(lines) <= 6, name
