"""What `save_with_card` leaves of each task."""

import contextlib
import io

import pytest
import small_tasks
from backend import slow_but_on
from every_task import TASKS, task

from keras_synth import models
from keras_synth.model_card import save_with_card

# It saves and loads, and computes next to nothing.
pytestmark = slow_but_on("torch")


def code_of(folder):
    (code,) = (folder / "README.md").read_text().split("```python\n")[1:]
    return code.split("```")[0]


def printed(code):
    out, namespace = io.StringIO(), {}
    with contextlib.redirect_stdout(out):
        exec(code, namespace)
    return namespace["model"], out.getvalue()


@pytest.mark.parametrize("kind", TASKS)
def test_the_code_of_a_card_loads_the_model_and_uses_it(
    kind, tmp_path, monkeypatch
):
    model = task(kind)
    save_with_card(
        model, tmp_path / "kept", "films", "R+V", "Ten.", {"score": 1}, "Fine."
    )
    card = (tmp_path / "kept" / "README.md").read_text()
    name = type(model).__name__
    for words in (
        f"# {name}, films, R+V",
        "1 block of width 8, 2 heads, self-attention R+V, at most 16 tokens. "
        "Fine.",
        "| score | 1 |",
        f"| parameters | {model.count_params():,} |",
    ):
        assert words in card
    monkeypatch.chdir(tmp_path)
    loaded, out = printed(code_of(tmp_path / "kept"))
    assert type(loaded) is type(model)
    assert out
    if kind == "classifier":
        assert out.startswith("['bad', 'good']")


def test_pairs_are_called_as_such(tmp_path, monkeypatch):
    backbone = models.SynthesizerBackbone(
        len(small_tasks.VOCABULARY),
        synthesizer="R",
        num_segments=2,
        max_sequence_length=8,
        **small_tasks.SIZES,
    )
    preprocessor = models.SynthesizerTextClassifierPreprocessor(
        small_tasks.tokenizer(), 8, with_segments=True
    )
    model = models.SynthesizerTextClassifier(backbone, 3, preprocessor)
    save_with_card(model, tmp_path / "kept", "pairs", "R", "Ten.", {})
    monkeypatch.chdir(tmp_path)
    assert printed(code_of(tmp_path / "kept"))[1].strip()


def test_words_without_a_preprocessor_are_in_a_file(tmp_path):
    model = small_tasks.task("causal_lm", preprocess=False)
    options = {"licence": "apache-2.0", "words": ["a", "é"]}
    save_with_card(model, tmp_path, "text", "R+V", "Ten.", {}, **options)
    assert (tmp_path / "vocabulary.txt").read_text("utf-8") == "a\né\n"
    assert "license: apache-2.0" in (tmp_path / "README.md").read_text()
    assert "generate" not in code_of(tmp_path)
