"""Numbers that README and docs quote are those of the records they name.

`benchmarks/records/README.md` describes `quotes.toml`.
"""

import re

import benchmark_records as records
import pytest
from places import ROOT

pytestmark = pytest.mark.once  # nothing here depends on the backend

QUOTES = records.quotes()
# Pages on which each number with a decimal point is quoted.
STRICT = [
    "README.md",
    "docs/index.md",
    "docs/choose.md",
    *(
        f"docs/benchmarks/{name}.md"
        for name in ("index", "accuracy", "speed", "memory", "length")
    ),
]
# Code, links, versions and the paper.
ELSEWHERE = re.compile(
    r"^```.*?^```$|`[^`]*`|\]\(.*?\)"
    r"|\b(?:Apache|arXiv|Keras|Python)\s[\d.]+",
    re.DOTALL | re.MULTILINE,
)


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", QUOTES)
def test_quoted_numbers_are_those_of_the_records(page):
    text = text_of(page)
    assert records.with_numbers(text, QUOTES[page]) == text


@pytest.mark.parametrize("page", STRICT)
def test_every_measured_number_is_quoted(page):
    text = text_of(page)
    for phrase in QUOTES.get(page, ()):
        text = records.pattern(phrase).sub("", text)
    assert not re.findall(r"\d+\.\d+", ELSEWHERE.sub("", text))


def test_a_number_that_differs_is_written_anew():
    phrases = {"V has {} %, {}": ["accuracy/imdb.json name=V accuracy"] * 2}
    text = "x 1.2\nV has\n87.61 %, 1,000 y"
    expected = "x 1.2\nV has\n87.58 %, 88 y"
    assert records.with_numbers(text, phrases) == expected
    assert records.with_numbers(expected, phrases) == expected


@pytest.mark.parametrize("page", ["V has", "V has 1 V has 2"])
def test_a_phrase_must_occur_once(page):
    phrases = {"V has {}": ["accuracy/imdb.json name=V accuracy"]}
    with pytest.raises(ValueError, match="must occur once"):
        records.with_numbers(page, phrases)


def test_differences_ratios_and_parts_of_seeds():
    seeds = records.select(records.load("accuracy/imdb.json"), {"name": "V"})
    (accuracy,) = [row["accuracy"] for row in seeds]
    mean = sum(accuracy) / 3
    deviations = [(x - mean) ** 2 for x in accuracy]
    quote = "accuracy/imdb.json name=V accuracy"
    error = records.quoted(f"{quote}.error")
    assert error == pytest.approx((sum(deviations) / 2 / 3) ** 0.5)
    assert records.quoted(f"{quote}.least") == min(accuracy)
    spread = records.quoted(f"{quote}.spread")
    assert spread == max(accuracy) - min(accuracy)
    other = records.quoted("accuracy/imdb.json name=R accuracy")
    difference = records.quoted(f"{quote} - name=R")
    assert difference == pytest.approx(mean - other)
    ratio = records.quoted(f"{quote} / name=R")
    assert ratio == pytest.approx(mean / other)


@pytest.mark.parametrize(
    "quote, message",
    [
        ("accuracy/nothing.json name=V accuracy", "the name of a record"),
        ("accuracy/imdb.json name=Q accuracy", "one row .* Received: 0 rows"),
        ("accuracy/imdb.json accuracy", "one row .* Received: 29 rows"),
        ("accuracy/imdb.json mixer=V accuracy", "has the keys"),
        ("accuracy/imdb.json name=V bleu", "a field 'bleu'"),
    ],
)
def test_a_quote_that_names_no_number_is_an_error(quote, message):
    with pytest.raises(ValueError, match=message):
        records.quoted(quote)
