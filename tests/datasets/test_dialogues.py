import gzip
import json
import re
from itertools import pairwise

import pytest

from keras_synth import datasets

pytestmark = pytest.mark.once  # nothing here depends on the backend


def write(path, content):
    """Writes text or bytes, zipped if the name ends in ".gz"."""
    content = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        gzip.compress(content) if path.suffix == ".gz" else content
    )
    return path


# DialogSum


def training_lines(name, count=2):
    return [
        {
            "fname": f"{name}_{i}",
            "dialogue": f"#Person1#: {name}?\n#Person2#: No {i}.",
            "summary": f" {name}\u2028 {i}\n",
        }
        for i in range(count)
    ]


TEST_LINES = [
    {
        "dialogue": "#Person1#: One.",
        **{f"summary{i}": f"{i}" for i in (1, 2, 3)},
    },
    {
        "dialogue": "#Person1#: Zwölf.",
        **{f"summary{i}": f"{i}{i}" for i in (3, 1, 2)},
    },
]
TEST = (
    ["#Person1#: One.", "#Person1#: Zwölf."],
    [["1", "2", "3"], ["11", "22", "33"]],
)


def write_dialogsum(folder, suffix="", **lines):
    for name, examples in {"test": TEST_LINES, **lines}.items():
        # Raw: JSON allows U+2028 within a string.
        text = "\n".join(json.dumps(x, ensure_ascii=False) for x in examples)
        write(folder / f"dialogsum.{name}.jsonl{suffix}", text + "\n")
    return folder


def expected(name):
    return (
        [f"#Person1#: {name}?\n#Person2#: No {i}." for i in (0, 1)],
        [f"{name}\u2028 {i}" for i in (0, 1)],
    )


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("folder", [".", "DialogSum_Data"])
def test_dialogues_to_train_on_are_those_of_dev_unless_train_is_there(
    tmp_path, suffix, folder
):
    folder = tmp_path / folder
    write_dialogsum(folder, suffix, dev=training_lines("dev"))
    for path in (folder, str(tmp_path)):
        assert datasets.load_dialogsum(path) == (expected("dev"), TEST)
    write_dialogsum(folder, suffix, train=training_lines("train"))
    assert datasets.load_dialogsum(tmp_path) == (expected("train"), TEST)
    (folder / f"dialogsum.dev.jsonl{suffix}").unlink()
    assert datasets.load_dialogsum(tmp_path) == (expected("train"), TEST)


@pytest.mark.parametrize("fraction", [0.1, 0.5])
def test_dialogues_to_validate_on_are_those_of_dev_or_held_out(
    tmp_path, fraction
):
    def load():
        return datasets.load_dialogsum(tmp_path, validation_fraction=fraction)

    write_dialogsum(tmp_path, dev=training_lines("dev"))
    *splits, test = load()
    assert test == TEST
    pairs = [[*zip(*split, strict=True)] for split in splits]
    assert [len(some) for some in pairs] == [1, 1]
    assert {*pairs[0], *pairs[1]} == {*zip(*expected("dev"), strict=True)}
    write_dialogsum(tmp_path, train=training_lines("train"))
    assert [*load()] == [expected("train"), expected("dev"), TEST]


def test_blank_lines_of_dialogsum_are_skipped(tmp_path):
    write_dialogsum(tmp_path)
    lines = map(json.dumps, training_lines("dev"))
    write(tmp_path / "dialogsum.dev.jsonl", "\r\n \r\n".join(lines) + "\n\n")
    assert datasets.load_dialogsum(tmp_path)[0] == expected("dev")


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"dialogue": "a", "summ', "expected a JSON object"),
        ("a\tb", "expected a JSON object"),
        ('["dialogue", "summary"]', "expected a JSON object"),
        ("[" * 100_000, "expected a JSON object"),
        ("{}", "called dialogue, summary. .* no text called dialogue, summary"),
        ('{"dialogue": "a"}', "Received: no text called summary$"),
        ('{"dialogue": 1, "summary": "b"}', "no text called dialogue$"),
        ('{"dialogue": "a", "summary": " "}', "no text called summary$"),
    ],
)
def test_a_damaged_line_of_dialogsum_is_named(tmp_path, line, message, suffix):
    write_dialogsum(tmp_path)
    (first, _) = map(json.dumps, training_lines("dev"))
    path = tmp_path / f"dialogsum.dev.jsonl{suffix}"
    write(path, f"{first}\n\n{line}\n{first}\n")
    with pytest.raises(ValueError, match=message) as error:
        datasets.load_dialogsum(tmp_path)
    assert str(error.value).startswith(f"{path}, line 3: ")
    assert len(str(error.value)) < 400 + len(str(path))


def test_all_three_summaries_of_a_test_dialogue_are_needed(tmp_path):
    lines = [TEST_LINES[0], {"dialogue": "a", "summary": "b", "summary2": "c"}]
    write_dialogsum(tmp_path, dev=training_lines("dev"), test=lines)
    message = r"test\.jsonl, line 2: .* no text called summary1, summary3$"
    with pytest.raises(ValueError, match=message):
        datasets.load_dialogsum(tmp_path)


def test_missing_files_of_dialogsum_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="Check the path"):
        datasets.load_dialogsum(tmp_path / "missing")
    with pytest.raises(FileNotFoundError, match=r"no file dialogsum\.test"):
        datasets.load_dialogsum(tmp_path)
    write_dialogsum(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no file dialogsum\.dev"):
        datasets.load_dialogsum(tmp_path)


def test_the_real_dialogsum_is_complete(data):
    (dialogues, summaries), (test_dialogues, references) = (
        datasets.load_dialogsum(data / "dialogsum")
    )
    assert len(set(dialogues)) == len(summaries) == 500
    assert len(set(test_dialogues)) == len(references) == 500
    assert {len(three) for three in references} == {3}
    turns = [turn for text in dialogues for turn in text.split("\n")]
    assert all(re.match(r"#Person\d#: ?", turn) for turn in turns)


# Persona-Chat

NAME = "valid_self_original_no_cands.txt"
DIALOGUE = (
    "1 your persona: i like tea.",
    "2 your persona: i've a\u2028dog. ",
    "3 hi !\they . ",
    "4 how are you ?\tfine \x85 you ?",
    "5 fine , too\tgood",
)
PERSONA = "i like tea. | i've a\u2028dog."
PAIRS = {
    1: [
        (f"{PERSONA} | hi !", "hey ."),
        (f"{PERSONA} | how are you ?", "fine \x85 you ?"),
        (f"{PERSONA} | fine , too", "good"),
    ],
    2: [
        (f"{PERSONA} | hi !", "hey ."),
        (f"{PERSONA} | hey . | how are you ?", "fine \x85 you ?"),
        (f"{PERSONA} | fine \x85 you ? | fine , too", "good"),
    ],
    4: [
        (f"{PERSONA} | hi !", "hey ."),
        (f"{PERSONA} | hi ! | hey . | how are you ?", "fine \x85 you ?"),
        (
            f"{PERSONA} | hey . | how are you ? | fine \x85 you ? | fine , too",
            "good",
        ),
    ],
}


def other_dialogues(count):
    return [
        line
        for i in range(count)
        for line in (
            f"1 your persona: i am {i}.",
            f"2 {i} a\t{i} b",
            f"3 {i} c\t{i} d",
        )
    ]


def pairs_of(split):
    return list(zip(*split, strict=True))


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("turns", PAIRS)
def test_a_context_is_the_persona_and_the_last_turns(
    tmp_path, suffix, newline, turns
):
    lines = [*DIALOGUE, *other_dialogues(1), ""]
    path = write(tmp_path / f"{NAME}{suffix}", newline.join(lines))
    splits = datasets.load_personachat(tmp_path, turns=turns)
    assert datasets.load_personachat(str(path), turns=turns) == splits
    received = [pair for split in splits for pair in pairs_of(split)]
    assert len(received) == 5
    assert set(PAIRS[turns]) < set(received)
    assert ("i am 0. | 0 a", "0 b") in received


def test_two_turns_are_the_default(tmp_path):
    path = write(tmp_path / NAME, "\n".join([*DIALOGUE, *other_dialogues(1)]))
    default = datasets.load_personachat(path)
    assert default == datasets.load_personachat(path, 0.1, 0, turns=2)


def test_a_dialogue_is_on_one_side(tmp_path):
    path = write(tmp_path / "other.txt", "\n".join(other_dialogues(30)))
    train, test = datasets.load_personachat(path, test_fraction=0.2)
    speakers = [
        {c.split(" | ")[0] for c, _ in pairs_of(s)} for s in (train, test)
    ]
    assert [len(names) for names in speakers] == [24, 6]
    assert not speakers[0] & speakers[1]
    assert [len(side) for side in (*train, *test)] == [48, 48, 12, 12]
    assert [type(side) for side in (*train, *test)] == [list] * 4
    # Shuffled: most of the two replies of a dialogue are not neighbours.
    order = [context.split(" | ")[0] for context in train[0]]
    assert sum(a == b for a, b in pairwise(order)) < 6
    again, other = (
        datasets.load_personachat(path, 0.2, seed=seed) for seed in (0, 1)
    )
    assert again == (train, test) != other


def test_dialogues_to_validate_on_leave_the_test_alone(tmp_path):
    path = write(tmp_path / "other.txt", "\n".join(other_dialogues(30)))
    train, test = datasets.load_personachat(path)
    fewer, validation, same = datasets.load_personachat(
        path, validation_fraction=0.2
    )
    sides = [{*zip(*x, strict=True)} for x in (train, test, fewer, validation)]
    assert {*zip(*same, strict=True)} == sides[1]
    assert sides[2] | sides[3] == sides[0]
    assert not sides[2] & sides[3]


def test_candidates_blank_lines_and_missing_personas_do_no_harm(tmp_path):
    lines = ["1 a\tb\t\tx|y|b", "", "2 c\td\t", "1 e\tf", "2 g\th", " "]
    path = write(tmp_path / NAME, "\n".join(lines))
    splits = datasets.load_personachat(path)
    received = {pair for split in splits for pair in pairs_of(split)}
    first, second = {("a", "b"), ("b | c", "d")}, {("e", "f"), ("f | g", "h")}
    assert received == first | second


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(
    "line",
    [
        "3 x\ty",  # a number twice
        "5 x\ty",  # one left out
        "x\ty",
        "4 x",
        "4 x\t",
        "4 \ty",
        "4 your persona: i am late.",
        "1 your persona: ",
        "1 partner's persona: i am nobody.",
        "1 i am nobody.",
        "4",
        "٤ x\ty",  # four, in other digits
    ],
)
def test_a_malformed_line_is_named(tmp_path, line, suffix):
    path = tmp_path / f"{NAME}{suffix}"
    write(path, "\n".join([*DIALOGUE[:3], line, *other_dialogues(3)]))
    with pytest.raises(ValueError, match="Correct the line, or") as error:
        datasets.load_personachat(path)
    assert str(error.value).startswith(f"{path}, line 4: expected ")
    assert str(error.value).endswith(f"Received: {line!r}")


def test_a_file_starts_with_a_dialogue(tmp_path):
    path = write(tmp_path / NAME, "2 a\tb\n")
    with pytest.raises(ValueError, match="line 1: expected 1, or 1 for a new"):
        datasets.load_personachat(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"turns": 0}, "`turns` must be a positive integer. Received: turns=0"),
        ({"turns": 1.5}, "`turns` must be a positive integer"),
        ({"test_fraction": 0}, "test_fraction must lie between"),
        ({"test_fraction": 0.9}, "Received: 3 dialogues and .*0.9"),
    ],
)
def test_arguments_of_personachat_out_of_range_are_refused(
    tmp_path, arguments, message
):
    path = write(tmp_path / NAME, "\n".join(other_dialogues(3)))
    with pytest.raises(ValueError, match=message):
        datasets.load_personachat(path, **arguments)


@pytest.mark.parametrize(
    ("lines", "dialogues"),
    [(other_dialogues(1), 1), (["1 your persona: i say nothing."] * 2, 0)],
)
def test_dialogues_too_few_to_split_are_refused(tmp_path, lines, dialogues):
    path = write(tmp_path / NAME, "\n".join(lines))
    with pytest.raises(ValueError, match=f"Received: {dialogues} dialogues"):
        datasets.load_personachat(path)


def test_a_folder_without_personachat_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=f"no file {NAME} or"):
        datasets.load_personachat(tmp_path)
    with pytest.raises(FileNotFoundError, match="Check the path"):
        datasets.load_personachat(tmp_path / "missing")
    path = write(tmp_path / NAME, "")
    with pytest.raises(ValueError, match="expected a text"):
        datasets.load_personachat(path)


def test_the_real_personachat_is_complete(data):
    train, test = datasets.load_personachat(data / "convai2_personachat")
    pairs = [*pairs_of(train), *pairs_of(test)]
    assert len(pairs) == 7801
    # 4 or 5 sentences of a persona, then 2 utterances, or 1 at the start.
    lengths = {context.count(" | ") + 1 for context, _ in pairs}
    assert lengths == {5, 6, 7}


def test_the_real_personachat_is_split_by_its_thousand_dialogues(data):
    splits = datasets.load_personachat(data / "convai2_personachat", turns=1000)
    starts = []
    for contexts, _ in splits:
        # With all turns, a context goes on where the one before ended.
        known = set(contexts)
        starts.append({c for c in known if c.rsplit(" | ", 2)[0] not in known})
    assert [len(side) for side in starts] == [900, 100]
    assert not starts[0] & starts[1]
