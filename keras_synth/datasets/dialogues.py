"""The text format of ParlAI, in which Persona-Chat is published."""

from typing import NamedTuple

from keras_synth._backend.checks import check_positive
from keras_synth.datasets.files import read_lines
from keras_synth.datasets.readers import one_file

_PERSONA = "your persona: "


class _Dialogue(NamedTuple):
    persona: list
    utterances: list  # of both speakers in turn; every second one is a reply


def contexts_and_replies(entry, path, turns=2):
    """Groups of `(context, reply)`, one group for each dialogue."""
    check_positive("turns", turns)
    dialogues = _read_dialogues(one_file(entry, path))
    return {"train": list(filter(None, (_pairs(x, turns) for x in dialogues)))}


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
