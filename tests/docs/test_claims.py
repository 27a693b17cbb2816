"""Numbers that README and docs quote are those of the records they name.

    87.6<!-- record: accuracy/imdb.json name=V accuracy -->

`benchmarks/records/README.md` describes records and comments.
"""

import re
import sys

import pytest
from places import ROOT

sys.path.append(str(ROOT / "docs"))

import benchmark_records as records

pytestmark = pytest.mark.once  # nothing here depends on the backend

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in PAGES
}
CLAIMS = [
    (page, number, claim)
    for page, text in TEXTS.items()
    for number, claim in records.claims(text)
]
# Pages on which each number with a decimal point names its record.
STRICT = [
    "README.md",
    "docs/index.md",
    "docs/choose.md",
    *(
        f"docs/benchmarks/{name}.md"
        for name in ("index", "accuracy", "speed", "memory", "length")
    ),
]
# What the tables made of records say, code, links, versions and the paper.
ELSEWHERE = re.compile(
    r"<!-- records: .*?<!-- end of records -->|^```.*?^```$|`[^`]*`|\]\(.*?\)"
    r"|\b(?:Apache|arXiv|Keras|Python)\s[\d.]+",
    re.DOTALL | re.MULTILINE,
)


def agrees(number, claim):
    digits = len(number.partition(".")[2])
    return records.plain(records.claimed(claim), digits) == number


@pytest.mark.parametrize("page, number, claim", CLAIMS)
def test_a_number_is_its_records(page, number, claim):
    value = records.claimed(claim)
    assert agrees(number, claim), f"{page}: {number}, but {value} in {claim}"


@pytest.mark.parametrize("page", STRICT)
def test_every_measured_number_names_its_record(page):
    text = ELSEWHERE.sub("", TEXTS[page])
    text = records.CLAIM.sub("", text)
    assert not re.findall(r"\d+\.\d+", text)


def test_every_comment_stands_behind_a_number():
    for page, text in TEXTS.items():
        found = records.claims(text)
        assert len(found) == text.count("<!-- record: "), page


def test_a_number_that_differs_is_seen():
    claim = "accuracy/imdb.json name=V accuracy"
    assert agrees("87.58", claim)
    assert agrees("87.6", claim)
    assert not agrees("87.5", claim)
    assert not agrees("87.68", claim)


def test_differences_ratios_and_parts_of_seeds():
    seeds = records.select(records.load("accuracy/imdb.json"), {"name": "V"})
    (accuracy,) = [row["accuracy"] for row in seeds]
    mean = sum(accuracy) / 3
    deviations = [(x - mean) ** 2 for x in accuracy]
    claim = "accuracy/imdb.json name=V accuracy"
    error = records.claimed(f"{claim}.error")
    assert error == pytest.approx((sum(deviations) / 2 / 3) ** 0.5)
    assert records.claimed(f"{claim}.least") == min(accuracy)
    spread = records.claimed(f"{claim}.spread")
    assert spread == max(accuracy) - min(accuracy)
    other = records.claimed("accuracy/imdb.json name=R accuracy")
    difference = records.claimed(f"{claim} - name=R")
    assert difference == pytest.approx(mean - other)
    ratio = records.claimed(f"{claim} / name=R")
    assert ratio == pytest.approx(mean / other)


@pytest.mark.parametrize(
    "claim, message",
    [
        ("accuracy/nothing.json name=V accuracy", "the name of a record"),
        ("accuracy/imdb.json name=Q accuracy", "one row .* Received: 0 rows"),
        ("accuracy/imdb.json accuracy", "one row .* Received: 29 rows"),
        ("accuracy/imdb.json mixer=V accuracy", "has the keys"),
        ("accuracy/imdb.json name=V bleu", "a field 'bleu'"),
    ],
)
def test_a_comment_that_names_no_number_is_refused(claim, message):
    with pytest.raises(ValueError, match=message):
        records.claimed(claim)
