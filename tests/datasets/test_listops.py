"""ListOps: what expressions are worth, by the generator and in files."""

import collections
import gzip
import statistics

import numpy as np
import pytest

from keras_synth import datasets

pytestmark = pytest.mark.once  # nothing here depends on the backend

WORTH = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda values: int(statistics.median(values)),
    "[SM": lambda values: sum(values) % 10,
}


def parsed(text):
    """An expression as nested lists: `["[MAX", 2, ["[SM", 6, 7]]`."""
    stack = [[]]
    for token in text.split():
        if token in WORTH:
            stack.append([token])
        elif token == "]":
            closed = stack.pop()
            stack[-1].append(closed)
        else:
            stack[-1].append(int(token))
    ((whole,),) = stack
    return whole


def value(node):
    if isinstance(node, int):
        return node
    return WORTH[node[0]]([value(x) for x in node[1:]])


def lists(node):
    """All lists in a list, itself among them, with their levels."""
    found, left = [], [(node, 1)]
    while left:
        node, level = left.pop()
        if not isinstance(node, int):
            found.append((node, level))
            left += [(x, level + 1) for x in node[1:]]
    return found


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("7", 7),
        ("[MIN 3 1 2 ]", 1),
        ("[MAX 3 9 2 ]", 9),
        ("[MED 9 1 4 ]", 4),
        ("[MED 1 4 ]", 2),
        ("[MED 8 1 4 3 ]", 3),
        ("[SM 9 8 7 ]", 4),
        ("[FIRST 4 9 ]", 4),
        ("[LAST 4 9 ]", 9),
        ("[MAX 2 [SM 6 7 ] 1 ]", 3),
        ("[SM 4 [MAX 2 [MED 0 9 3 ] ] 1 ]", 8),
        ("( ( ( ( [MAX 2 ) ( ( ( [SM 6 ) 7 ) ] ) ) 1 ) ] )", 3),
    ],
)
def test_expressions_are_worth_what_the_rules_say(expression, expected):
    assert datasets.evaluate_listops(expression) == expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("[AVG 1 2 ]", r"the operators \[MIN, .*Received: '\[AVG' in '\[AVG 1"),
        ("[MIN 1 12 ]", "Expected digits.*Received: '12'"),
        ("[min 1 2 ]", r"Received: '\[min'"),
        ("[MIN 1 [MAX 2 ]", r"Expected \] behind.*Received: 1 without"),
        ("[MIN 1 2 ] ]", r"operator before each \].*one \] too many"),
        ("[MIN 1 [SM ] ]", r"Expected an argument.*Received: \[SM \]"),
        ("1 2", "Expected one expression.*Received: 2 in '1 2'"),
        (" ", "Expected one expression.*Received: 0"),
        ("[MAX1 2 ]", r"between spaces.*Received: '\[MAX1'"),
    ],
)
def test_what_is_no_expression_is_refused(expression, message):
    with pytest.raises(ValueError, match=message) as caught:
        datasets.evaluate_listops(expression)
    assert "Correct the expression" in str(caught.value)


def test_generated_values_are_right():
    texts, labels = datasets.generated_listops(1_500)
    assert labels.dtype == "int32"
    assert len(texts) == len(set(texts)) == len(labels) == 1_500
    for text, label in zip(texts, labels.tolist(), strict=True):
        assert value(parsed(text)) == label
        assert datasets.evaluate_listops(text) == label
    names = datasets.CLASS_NAMES["generated_listops"]
    assert names[3] == "3"
    assert {*labels.tolist()} == {*map(int, names)}


def test_generated_expressions_follow_the_rules():
    texts, _ = datasets.generated_listops(
        4_000, max_depth=4, max_args=6, max_length=500
    )
    every = [pair for text in texts for pair in lists(parsed(text))]
    assert max(level for _, level in every) == 3  # and digits on the fourth
    arguments = collections.Counter(len(node) - 1 for node, _ in every)
    assert {*arguments} == {2, 3, 4, 5, 6}
    operators = collections.Counter(node[0] for node, _ in every)
    for counts in (arguments, operators):
        shares = np.array([*counts.values()]) / len(every)
        np.testing.assert_allclose(shares, 1 / len(counts), atol=0.02)
    inner = [x for node, level in every if level < 3 for x in node[1:]]
    share = np.mean([not isinstance(x, int) for x in inner])
    assert abs(share - 0.25) < 0.02
    digits = [x for node, _ in every for x in node[1:] if isinstance(x, int)]
    shares = np.bincount(digits) / len(digits)
    np.testing.assert_allclose(shares, 0.1, atol=0.01)


def test_lengths_lie_between_the_limits():
    texts, _ = datasets.generated_listops(
        100, min_length=50, max_length=60, max_depth=10
    )
    lengths = {len(text.split()) for text in texts}
    assert 50 <= min(lengths) <= max(lengths) <= 60
    assert len(lengths) > 5


def test_generated_expressions_depend_on_the_seed_only():
    first, again, other, more = (
        datasets.generated_listops(count, seed=seed)
        for count, seed in ((50, 3), (50, 3), (50, 4), (80, 3))
    )
    assert first[0] == again[0] == more[0][:50]
    assert first[1].tolist() == again[1].tolist()
    assert first[0] != other[0]


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("num_examples", {"num_examples": 0}),
        ("max_depth must be at least 2", {"max_depth": 1}),
        ("max_args must be at least 2", {"max_args": 1}),
        ("max_length must be at least 4.*max_length=3", {"max_length": 3}),
        ("min_length.*positive", {"min_length": 0}),
        ("max_depth", {"max_depth": 2.5}),
        ("at most max_length", {"min_length": 9, "max_length": 8}),
        (
            "at most 12 tokens.*min_length=13",
            {"min_length": 13, "max_depth": 2},
        ),
    ],
)
def test_limits_out_of_range_are_refused(message, arguments):
    with pytest.raises(ValueError, match=message):
        datasets.generated_listops(**{"num_examples": 10, **arguments})


def test_more_expressions_than_there_are_is_an_error():
    # Four operators, and 100 pairs of digits for each.
    limits = {"max_depth": 2, "max_args": 2, "max_length": 4}
    texts, _ = datasets.generated_listops(400, **limits)
    assert len({*texts}) == 400
    with pytest.raises(ValueError, match=r"400 distinct.*num_examples=401"):
        datasets.generated_listops(401, **limits)


# Files


PUBLISHED = "3\t( ( ( [SM 6 ) 7 ) ] )\n9\t( ( ( [MAX 9 ) 2 ) ] )\n"
ARENA = "Source\tTarget\r\n( ( ( [SM 6 ) 7 ) ] )\t3\r\n9\t9\r\n"


@pytest.mark.parametrize(
    ("content", "last"), [(PUBLISHED, "[MAX 9 2 ]"), (ARENA, "9")]
)
@pytest.mark.parametrize("zipped", [False, True])
def test_both_published_forms_are_read(tmp_path, content, last, zipped):
    path = tmp_path / ("a.tsv.gz" if zipped else "a.tsv")
    content = content.encode()
    path.write_bytes(gzip.compress(content) if zipped else content)
    texts, labels = datasets.load_listops(path)
    assert texts == ["[SM 6 7 ]", last]
    assert labels.dtype == "int32"
    assert labels.tolist() == [3, 9]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("3\t[SM 6 7 ]\n4\t[SM 6 7 ]\n", "line 2: expected the answer 3.*'4'"),
        ("3\t[SM 6 7 ]\n3\t[AVG 6 7 ]\n", r"line 2: Expected.*'\[AVG'"),
        ("Source\tTarget\n[SM 6 7 ]\t4\n", "line 2: expected the answer 3"),
        ("3\t[SM 6 7 ]\n3\n", "line 2: expected an answer, a tab.*1 fields"),
        ("3\t[SM 6 [SM 7 ]\n", "line 1: Expected ]"),
        ("\n", "on each line.*Received: no line"),
        ("Source\tTarget\n", "on each line.*Received: no line"),
    ],
)
def test_files_with_errors_are_refused(tmp_path, content, message):
    path = tmp_path / "wrong.tsv"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        datasets.load_listops(path)


@pytest.mark.parametrize("name", ["d20s", "d20a", "d20", "d14", "d8"])
def test_the_published_answers_are_those_of_evaluation(data, name):
    path = data / "listops" / f"test_{name}.tsv.gz"
    texts, labels = datasets.load_listops(path)
    assert len(texts) == len(labels) == 10_000
    assert min(np.bincount(labels) / len(labels)) > 0.08
    operators = {x for text in texts for x in text.split() if x[0] == "["}
    expected = {
        "d20s": {"[MIN", "[MAX", "[MED", "[SM"},
        "d20a": {"[MIN", "[MAX", "[MED"},
    }
    usual = {"[MIN", "[MAX", "[FIRST", "[LAST"}
    assert operators == expected.get(name, usual)
    if name == "d20s":
        for text, label in zip(texts, labels.tolist(), strict=True):
            assert value(parsed(text)) == label


def test_the_generator_draws_what_the_published_file_holds(data):
    """Lengths and answers of ListOps' own file, by its own limits."""
    published, answers = datasets.load_listops(
        data / "listops" / "test_d20s.tsv.gz"
    )
    texts, labels = datasets.generated_listops(
        10_000, max_depth=20, max_args=5, max_length=1_000
    )
    lengths, expected = (
        np.array([len(text.split()) for text in side])
        for side in (texts, published)
    )
    for share in (0.25, 0.5, 0.75):
        assert (
            abs(np.quantile(lengths, share) - np.quantile(expected, share))
            <= 0.15 * np.quantile(expected, share) + 1
        )
    shares, wanted = (np.bincount(x) / len(x) for x in (labels, answers))
    np.testing.assert_allclose(shares, wanted, atol=0.02)
