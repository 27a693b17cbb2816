"""Dialogues to sum up or to answer: DialogSum, Persona-Chat."""

import json
from pathlib import Path
from typing import NamedTuple

from keras_synth.checks import check_positive
from keras_synth.datasets.files import find_files
from keras_synth.datasets.groups import split_groups
from keras_synth.datasets.lines import one_file, read_lines

_PERSONA = "your persona: "


def load_dialogsum(path, validation_fraction=None):
    r"""Reads DialogSum, spoken dialogues with summaries.

    A dialogue has a turn per line, `#Person1#: ` and what is said.

    The training set is `dialogsum.train.jsonl` if the folder holds it, as
    published. **If not, the 500 dialogues of `dialogsum.dev.jsonl` take its
    place**, and results do not compare with published ones.

    Args:
        path: String or path-like: the folder with `dialogsum.test.jsonl` and
            at least one of the two others, plain or `.gz`; or a folder that
            contains it as `DialogSum_Data`.
        validation_fraction: `None`, or a float in (0, 1): then there is a
            split to validate on, too, `dialogsum.dev.jsonl` as published, or
            this share of the dialogues where that file is trained on or
            missing.

    Returns:
        `(dialogues, summaries), (test_dialogues, references)`, in the order
        of the files, or `train, validation, test` of the same form. Dialogues
        and summaries are lists of strings; `references` is a list of lists of
        three summaries each, by different people.

    Raises:
        ValueError: A line is no JSON object, or lacks a text, or the fraction
            is out of range.

    Example:

    ```python
    (dialogues, summaries), (test_dialogues, references) = load_dialogsum(
        "DialogSum_Data"
    )
    len(test_dialogues), len(references[0])  # 500, 3
    ```

    References:
        - [Chen et al., 2021](https://aclanthology.org/2021.findings-acl.449/)
    """
    path = Path(path)
    test_file, *_ = find_files(
        (path / "DialogSum_Data", path), "dialogsum.test.jsonl"
    )
    splits = _train_and_validation(test_file.parent, validation_fraction)
    test_dialogues, *references = _read_fields(
        test_file, "dialogue", "summary1", "summary2", "summary3"
    )
    references = list(map(list, zip(*references, strict=True)))
    return *splits, (test_dialogues, references)


def _train_and_validation(folder, fraction):
    """Returns one split or, if a fraction is given, two."""
    files = [
        *sorted(folder.glob("dialogsum.train.jsonl*"))[:1],
        *sorted(folder.glob("dialogsum.dev.jsonl*"))[:1],
    ] or find_files((folder,), "dialogsum.dev.jsonl")  # raises
    splits = [
        tuple(_read_fields(file, "dialogue", "summary"))
        for file in files[: 1 if fraction is None else 2]
    ]
    if fraction is None or splits[1:]:
        return splits
    pairs = [[pair] for pair in zip(*splits[0], strict=True)]
    fractions = {"validation_fraction": fraction}
    return split_groups(pairs, fractions, 0, "dialogues")


def _read_fields(path, *keys):
    """Returns a list of texts per key, from a file of JSON lines."""
    rows = []
    for line, text in enumerate(read_lines(path), start=1):
        if not text.strip():
            continue
        example = _parse(path, line, text)
        fields = {key: example.get(key) for key in keys}
        missing = [key for key, field in fields.items() if not _is_text(field)]
        if missing:
            raise ValueError(
                f"{path}, line {line}: expected texts called "
                f"{', '.join(keys)}. Add what is missing, or remove the line. "
                f"Received: no text called {', '.join(missing)}"
            )
        rows.append(map(str.strip, fields.values()))
    return list(map(list, zip(*rows, strict=True)))


def _is_text(field):
    return isinstance(field, str) and bool(field.strip())


def _parse(path, line, text):
    """Returns the JSON object on a line, a dictionary."""
    try:
        example = json.loads(text)
    except (ValueError, RecursionError):
        example = None
    if not isinstance(example, dict):
        raise ValueError(
            f"{path}, line {line}: expected a JSON object, as in "
            '{"dialogue": "...", "summary": "..."}. Correct or remove the '
            f"line, or download the file again. Received: {text[:60]!r}"
        )
    return example


class _Dialogue(NamedTuple):
    persona: list
    utterances: list  # of both speakers in turn; every second one is a reply


def load_personachat(
    path, test_fraction=0.1, seed=0, turns=2, validation_fraction=None
):
    """Reads Persona-Chat, small talk of people who play a role, and splits it.

    A context is what the one who replies knows, joined by `" | "`: the four
    or five sentences of the own persona, then the last utterances, oldest
    first. The last one is always the partner's.

    All of a dialogue is on one side of the split, but a persona may be on
    both, as many have several dialogues. Figures compare only where fraction
    and seed agree.

    Args:
        path: String or path-like, a file in the text format of ParlAI, plain
            or `.gz`; or the folder with `valid_self_original_no_cands.txt`,
            plain or `.gz`. Candidate replies, if any, are ignored.
        test_fraction: Float in (0, 1), the share of the test dialogues.
        seed: Integer, not negative. The same seed gives the same split.
        turns: Integer, the number of utterances of a context, fewer only at
            the start of a dialogue.
        validation_fraction: Float in (0, 1), the share of the dialogues to
            validate on, or `None`. Those to test on are the same.

    Returns:
        `train, test`, or `train, validation, test`, each `(contexts,
        replies)`, two lists of strings, shuffled.

    Raises:
        ValueError: A line is not as expected, or an argument out of range.

    Example:

    ```python
    train, test = load_personachat("convai2", turns=1)
    contexts, replies = train
    ```

    References:
        - [Zhang et al., 2018](https://arxiv.org/abs/1801.07243)
        - [Dinan et al., 2019](https://arxiv.org/abs/1902.00098)
    """
    check_positive("turns", turns)
    path = one_file(path, "valid_self_original_no_cands.txt")
    groups = [_pairs(dialogue, turns) for dialogue in _read_dialogues(path)]
    fractions = {"test_fraction": test_fraction}
    if validation_fraction is not None:
        fractions["validation_fraction"] = validation_fraction
    groups = list(filter(None, groups))
    train, test, *validation = split_groups(
        groups, fractions, seed, "dialogues"
    )
    return train, *validation, test


def _pairs(dialogue, turns):
    """Returns `(context, reply)` of each reply of a dialogue."""
    persona, said = dialogue
    return [
        (" | ".join(persona + said[max(0, i - turns) : i]), said[i])
        for i in range(1, len(said), 2)
    ]


def _read_dialogues(path):
    dialogues, number = [], 0
    for line, text in enumerate(read_lines(path), start=1):
        if not text.strip():
            continue
        start, _, rest = text.strip().partition(" ")
        if start == "1":
            dialogues.append(_Dialogue([], []))
            number = 0
        number += 1
        if start != str(number) or not _add(dialogues[-1], rest):
            raise ValueError(
                f"{path}, line {line}: expected {number}, or 1 for a new "
                f"dialogue, then {_PERSONA!r} and a sentence, before all "
                "utterances, or an utterance, a tab and the reply. Correct "
                f"the line, or remove its dialogue. Received: {text[:60]!r}"
            )
    return dialogues


def _add(dialogue, text):
    """Adds a sentence or two utterances; returns False if it is neither."""
    first, *others = (field.strip() for field in text.split("\t"))
    if others and first and others[0]:
        dialogue.utterances.extend((first, others[0]))
        return True
    sentence = first.removeprefix(_PERSONA)
    if others or dialogue.utterances or sentence in ("", first):
        return False
    dialogue.persona.append(sentence)
    return True
