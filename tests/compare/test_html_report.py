"""`report.html`: whole, escaped, small, and with no need of a network."""

import base64
import errno
import hashlib
import html.parser
import os
import re
import shutil
import subprocess

import pytest
from result_rows import row, rows

from keras_synth._system import files
from keras_synth.compare import tasks
from keras_synth.compare.html import charts, page, write_html
from keras_synth.compare.html.comparison import Comparison
from keras_synth.compare.html.sections import (
    curves,
    differences,
    parts,
    scores,
)

pytestmark = pytest.mark.once  # nothing here depends on the backend

EVIL = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(2)'>",
    "</title></style><script>alert(3)</script>",
    "[bold]R|x[/] $\\frac{ ${style} $script",
]
VOID = {"meta", "link", "img", "br", "hr", "input"}


class Reader(html.parser.HTMLParser):
    """Reads a page: its elements, and whether all of them are closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    def attributes(self, tag):
        return [found for name, found in self.elements if name == tag]


def made(found, task="pairs"):
    text = page(Comparison.of(found, tasks.TASKS[task]))
    return text, Reader(text)


FOUR = {"V": [0.9, 0.92, 0.97], "R": [0.8, 0.83, 0.87], "D": [0.9, 0.9, 0.91]}


@pytest.fixture(scope="module")
def whole():
    found = rows(FOUR) + rows(FOUR, backend="jax")
    for x in found:
        if x["key"]["backend"] == "jax":
            x["score"] -= 0.01
            x["losses"][0] += 0.00123
    return made(found)


def test_a_report_says_all_that_there_is_to_say(whole):
    _, found = whole
    for words in [
        "V, R, D on pairs",
        "18 runs on the task pairs: 3 variants, 2 heads, 2 backends, 3 seeds",
        "higher is better",
        "Best: V, torch, 93.00 ±3.50% (3 seeds).",
        "V - R = 9.67 percentage points, 95% interval",
        "V is better",
        "no difference shown",
        "paired",
        "V (dot_product) : Compares each query token with each source token.",
        "training steps per second",
        "peak memory, MiB",
        "keras-synth compare --task pairs --variants V R D --num-heads 2",
        "0123abcd",
        "3.15.1",
        "2026-09-21 14:13 to 2026-09-21 14:13, UTC",
    ]:
        assert words in found.text, words


def test_backends_are_compared_run_by_run(whole):
    _, found = whole
    after = found.text.split("How far backends agree")[1]
    assert "Without dropout" in after
    line = after[after.index("V torch, jax") :]
    assert line.startswith("V torch, jax 3 0.00123 1.00 1.00 R torch, jax")
    _, one = made(rows(FOUR))
    assert "backends agree" not in one.text


def test_the_page_asks_nobody_for_anything(whole):
    text, found = whole
    for _, attributes in found.elements:
        for name in ("src", "href", "xlink:href", "action", "data"):
            value = attributes.get(name) or "#"
            assert value[0] == "#" or value == "data:,"
    assert "://" not in text
    assert "@import" not in text
    assert set(re.findall(r"url\((.)", text)) <= {"#"}
    policy = found.attributes("meta")[1]["content"]
    assert policy.startswith("default-src 'none'; ")
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = hashlib.sha256(script.encode()).digest()
    assert f"'sha256-{base64.b64encode(digest).decode()}'" in policy


def test_pictures_take_their_colours_from_the_page(whole):
    """Light and dark, and nothing of one picture is another's."""
    text, found = whole
    pictures = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(pictures) == 5
    assert not re.findall(r"(?:fill|stroke): #", "".join(pictures))
    named = set(re.findall(r"var\((--[\w-]+)\)", text))
    style = text.split("<style>")[1].split("</style>")[0]
    light, dark = style.split("prefers-color-scheme: dark")
    for name in named:
        assert f"{name}: #" in light
        assert f"{name}: #" in dark
    names = [x["id"] for _, x in found.elements if "id" in x]
    assert len(names) == len({*names})
    used = set(re.findall(r'(?:url\(#|xlink:href="#)(\w+)', text))
    assert used == {*names}


def test_pictures_say_what_they_show_in_words(whole):
    _, found = whole
    words = [x["aria-label"] for x in found.attributes("svg")]
    assert all(x["role"] == "img" for x in found.attributes("svg"))
    assert words[0].startswith(
        "Test accuracy, mean and range: V, torch 93.00, "
    )
    assert "V, torch from 0.68 to 0.26" in words[1]
    assert "from 50.00 to 93.00" in words[2]
    assert "V, torch 21, 93.00" in words[3]
    assert "V, torch 600, 93.00" in words[4]


def test_names_are_shown_and_never_run():
    found = [
        x
        for i, name in enumerate(EVIL)
        for x in rows({name: [0.8, 0.9 - i / 100]})
    ]
    for x in found:
        x["versions"] = {EVIL[0]: EVIL[1]}
        x["signature"] = x["key"]["data"] = EVIL[2]
        x["samples"] = ["\ud800"]
        x["options"] = {"data": EVIL[1], EVIL[0]: EVIL[0], "callbacks": EVIL[0]}
    text, reader = made(found)
    assert len(reader.attributes("script")) == 1
    assert not reader.attributes("img")
    assert text.count("</style>") == text.count("</title>") == 1
    for name in EVIL:
        assert " ".join(name.split()) in reader.text
    for _, attributes in reader.elements:
        assert not any(name.startswith("on") for name in attributes)


def test_a_backend_and_settings_of_others_are_shown():
    found = rows({"V": [0.8, 0.9]}, backend=EVIL[0])
    for x in found:
        x["key"]["settings"]["schedule"] = EVIL[0]
        x["key"]["settings"]["momentum"] = 0.5
    _, reader = made(found)
    assert "momentum" in reader.text
    assert f"--schedule '{EVIL[0]}'" in reader.text
    assert "--momentum" not in reader.text
    assert len(reader.attributes("script")) == 1


def test_one_run_is_a_report():
    _, found = made([row()])
    assert "1 run on the task pairs: 1 variant" in found.text
    assert "Result: V, 90.00% (1 seed)." in found.text
    assert "no second variant" in found.text
    assert "Each line is one run." in found.text
    assert "Intervals" not in found.text


def test_one_seed_says_that_nothing_can_be_said():
    _, found = made(rows({"V": [0.9], "R": [0.8]}))
    assert (
        "V - R = 10.00 percentage points, 1 seed: one seed each" in found.text
    )
    assert "With these seeds nothing can be said" in found.text
    assert "--seeds 0 1 2" in found.text
    assert "Intervals" not in found.text


def test_thousands_of_runs_stay_readable_and_small():
    """And the best on validation are what is shown."""
    found = []
    for number in range(1500):
        score = 0.5 + (number * 7 % 1500) / 4000
        found += rows({f"FR(rank={number + 1}) + V": [score, score + 0.01]})
    text, reader = made(found)
    assert len(text) < 600_000
    assert f"The table shows {scores.LINES} of 1,500 lines" in reader.text
    assert f"Each chart shows {curves.CURVES} of 1,500 lines" in reader.text
    assert f"{differences.SENTENCES} of 1,499 differences" in reader.text
    best = max(found, key=lambda x: x["validation_scores"][-1])
    drawn = [x["aria-label"] for x in reader.attributes("svg")][1]
    assert best["key"]["variant"] in drawn
    assert drawn.count(" from ") == curves.CURVES


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1e30])
@pytest.mark.filterwarnings("error")
def test_runs_that_diverged_are_in_the_report(value):
    bad = row("R", score=0.5)
    bad.update(score=value, validation_scores=[0.5, 0.6, value, value])
    bad["losses"][5:] = [value] * 35
    _, found = made([row(), row(seed=1), bad, {**bad, "score": value}])
    assert "R" in found.text
    assert len(found.attributes("svg")) == 5


def test_figures_that_are_missing_leave_no_chart():
    nothing = dict.fromkeys(
        ("steps_per_second", "peak_memory_bytes", "multiplications")
    )
    found = rows(FOUR, **nothing)
    for x in found:
        del x["versions"], x["started"]
    _, reader = made(found)
    assert len(reader.attributes("svg")) == 3
    assert "time and memory" not in reader.text


def test_epochs_and_steps_may_differ():
    short = row(seed=1)
    short["validation_scores"] = short["validation_scores"][:2]
    short["losses"] = short["losses"][:3]
    made([row(), short, row("R", validation_scores=[0.5], losses=[0.7])])


@pytest.mark.parametrize(
    "task", ["imdb", "cola", "stsb", "multi30k", "dialogsum", "text", "mlm"]
)
def test_a_score_of_each_kind_is_named(task):
    score = tasks.TASKS[task].objective.score
    _, found = made(rows({"V": [0.9], "R": [0.8]}, task=task), task)
    assert score.name in found.text
    better = "higher" if score.higher_is_better else "lower"
    assert f"{better} is better" in found.text
    best = "V" if score.higher_is_better else "R"
    assert f"Best: {best}, " in found.text


def test_a_disk_that_is_full_leaves_the_last_report(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    write_html([row()], tasks.TASKS["pairs"], path)
    before = path.read_bytes()

    def full(file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "to_disk", full)
    with pytest.raises(files.UnwrittenError, match="cannot be written"):
        write_html(rows(FOUR), tasks.TASKS["pairs"], path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


def test_there_is_a_mark_for_each_line():
    assert len({*parts.GLYPHS.values()}) == charts.SERIES
    assert {*parts.GLYPHS} == {*charts.MARKERS}


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PRESS = """
for (const times of [1, 2]) {
  document.querySelectorAll(".results th button")[NUMBER].click();
  const rows = [...document.querySelectorAll(".results")][0].tBodies[0].rows;
  document.body.append([...rows].map((row) => row.cells[0].innerText), ";");
}
"""


@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM, reason="needs Chromium")
@pytest.mark.parametrize(
    ("column", "orders"), [(0, "D,R,V;V,R,D;"), (2, "R,D,V;V,D,R;")]
)
def test_a_heading_sorts_the_table_in_a_browser(tmp_path, column, orders):
    text, _ = made(rows(FOUR))
    press = PRESS.replace("NUMBER", str(column))
    text = re.sub(r"<meta http-equiv.*?>", "", text)
    text = text.replace("</body>", f"<script>{press}</script></body>")
    path = tmp_path / "report.html"
    path.write_text(text, encoding="utf-8")
    options = "--headless --no-sandbox --disable-gpu --no-first-run --dump-dom"
    done = subprocess.run(
        [CHROMIUM, *options.split(), f"--user-data-dir={tmp_path / 'user'}"]
        + [path.as_uri()],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert orders in done.stdout
