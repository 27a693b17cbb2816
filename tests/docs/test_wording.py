"""`make lint` finds expressions that pages should not contain."""

import subprocess
import sys

import pytest
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


def test_prose_in_the_modules_of_a_folder_is_checked(tmp_path):
    """If it has no pages; each finding has its line."""
    path = tmp_path / "deep" / "module.py"
    path.parent.mkdir()
    path.write_text(CODE, "utf-8")
    done = subprocess.run(
        [sys.executable, wording.__file__, tmp_path],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    found = [x.removeprefix(f"{path}:") for x in done.stdout.splitlines()]
    assert [x.partition(";")[0] for x in found] == [
        *("1: 'is no'", "8: 'Hence'", "8: 'alone'")
    ]
    page = tmp_path / "page.md"
    page.write_text("\nV alone.", "utf-8")
    assert wording.files_of(tmp_path) == [page]


@pytest.mark.parametrize("page", GOOD)
def test_plain_prose_code_and_links_pass(page):
    assert wording.findings(page) == []
