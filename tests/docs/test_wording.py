"""`make lint` finds expressions that pages should not contain."""

import subprocess
import sys

import pytest
from places import ROOT

sys.path.append(str(ROOT / "docs"))

import wording

pytestmark = pytest.mark.once  # nothing here depends on the backend

BAD = {
    "A pool is no mixer.": "is no",
    "The others have none.": "have none",
    "Sums are of\nsynthesizers alone.": "alone",
    "The label stands first.": "stands",
    "A table beside the code.": "beside",
    "Names are likewise read.": "likewise",
    "It has no keys, hence a small cache.": "hence",
    "A file shall load.": "shall",
    "D in the place of V.": "in the place of",
    "Up to some\n  thousand tokens.": "some thousand",
    "Means, sums and the like.": "and the like",
    "A model of your own.": "of your own",
    "A layer stays as it is.": "as it is",
    "Training goes on.": "goes on",
    "No GPU was at hand.": "at hand",
    "All but V have tables.": "All but",
    "The layer refuses masks.": "refuses",
    "One's own words.": "One's",
    "It ends. What is added trains on.": "What is added trains on.",
    "## What there is": "## What there is",
}
GOOD = [
    "There is no cache, and it is no longer read. Let alone two.",
    "Understand what a row sees.",
    "## What does it cost?",
    "Run `python alone.py` [here](beside.md).\n\n```text\nalone\n```",
    "<!-- alone --> <span class='beside'>",
]


def test_every_expression_is_found():
    pages = [wording.findings(page) for page in BAD]
    assert [[words for _, words, _ in page] for page in pages] == [
        [words] for words in BAD.values()
    ]
    assert {page[0][2] for page in pages} == {*wording.EXPRESSIONS.values()}


CODE = '''"""A mixer is no pattern."""

def alone(beside):
    """Adds.

    >>> alone(1)
    """
    raise ValueError(f"Layers {beside!r} alone. Received: {beside}")  # Hence.
'''


def test_prose_in_code_is_checked_and_code_is_not(tmp_path):
    module = tmp_path / "module.py"
    module.write_text(CODE, "utf-8")
    found = [(line, words) for line, words, _ in wording.findings_in(module)]
    assert found == [(1, "is no"), (8, "Hence"), (8, "alone")]


@pytest.mark.parametrize("page", GOOD)
def test_plain_prose_code_and_links_pass(page):
    assert wording.findings(page) == []


def run(*paths):
    command = [sys.executable, wording.__file__, *paths]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    return done


@pytest.mark.parametrize("suffixes", [["md", "py"], ["py"]])
def test_a_folder_means_its_pages_or_else_its_modules(tmp_path, suffixes):
    """Each finding has its line."""
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for suffix in suffixes:
        for name in ("a", "deep/er/b"):
            path = tmp_path / f"{name}.{suffix}"
            path.write_text('\n\n"""V alone."""\n', "utf-8")
    assert run(tmp_path).stdout.splitlines() == [
        f"{tmp_path / name}.{suffixes[0]}:3: 'alone'; write: only"
        for name in ("a", "deep/er/b")
    ]


def test_a_folder_without_pages_or_modules_is_an_error(tmp_path):
    assert "Expected pages or modules" in run(tmp_path).stderr
