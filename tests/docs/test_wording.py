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
    return subprocess.run(
        [sys.executable, wording.__file__, *paths],
        capture_output=True,
        text=True,
    )


def test_the_line_is_that_of_the_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```text\nalone\n```\n\nV alone.\n", "utf-8")
    result = run(page)
    assert result.returncode == 1
    assert result.stdout == f"{page}:7: 'alone'; write: only\n"


@pytest.mark.parametrize(
    ("names", "read"),
    [
        (["a.md", "deep/er/b.md", "script.py"], ["a.md", "deep/er/b.md"]),
        (["a.py", "deep/er/b.py"], ["a.py", "deep/er/b.py"]),
    ],
)
def test_a_folder_means_its_pages_or_else_its_modules(tmp_path, names, read):
    for path in (tmp_path / name for name in names):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('"""V alone."""\n', "utf-8")
    result = run(tmp_path)
    assert result.returncode == 1
    assert result.stdout.splitlines() == [
        f"{tmp_path / name}:1: 'alone'; write: only" for name in read
    ]


def test_a_folder_without_pages_or_modules_is_an_error(tmp_path):
    result = run(tmp_path)
    assert result.returncode == 1
    assert "Expected pages or modules" in result.stderr
