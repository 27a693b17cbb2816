"""A preset saved over another one leaves nothing of it, and all else."""

import json
import os
import pathlib

import pytest
from backend import slow_but_on
from every_task import TASKS, task
from small_tasks import SIZES, WORDS, tokenizer

from keras_synth import models

pytestmark = slow_but_on("torch")  # files depend on no backend
OWN = {
    "README.md": "my card",
    "notes/metadata.json": "{}",
    ".git/config": "mine",
    "assets/picture.txt": "mine",
    "vocabulary.txt": "mine",
}


def files(folder):
    return {
        str(path.relative_to(folder))
        for path in pathlib.Path(folder).rglob("*")
        if path.is_file()
    }


def add_own(folder):
    for name, text in OWN.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


@pytest.mark.parametrize("kind", TASKS)
def test_a_folder_holds_what_was_saved_last_and_files_of_others(kind, tmp_path):
    fresh, over = tmp_path / "fresh", tmp_path / "over"
    made = models.SynthesizerBytePairTokenizer.from_texts(WORDS, 280)
    models.SynthesizerTextClassifier(
        models.SynthesizerBackbone(
            made.vocabulary_size(), synthesizer="V", **SIZES
        ),
        2,
        models.SynthesizerTextClassifierPreprocessor(made, 8),
    ).save_to_preset(over, max_shard_size=2e-5)
    assert len([name for name in files(over) if "model_0" in name]) > 1
    add_own(over)
    model = task(kind)
    for part in (model, model.backbone):
        if part is model:
            model.preprocessor = None
        part.save_to_preset(fresh)
        part.save_to_preset(over)
        assert files(over) == files(fresh) | {*OWN}
        for name, text in OWN.items():
            assert (over / name).read_text() == text
    assert "task.json" not in files(over)
    assert not (over / "assets" / "tokenizer").exists()


def test_parts_saved_before_the_model_stay(tmp_path):
    tokenizer().save_to_preset(str(tmp_path))
    model = task("classifier")
    model.backbone.save_to_preset(tmp_path)
    assert {"tokenizer.json", "assets/tokenizer/vocabulary.txt"} <= files(
        tmp_path
    )
    loaded = models.SynthesizerTokenizer.from_preset(tmp_path)
    assert loaded(WORDS) == tokenizer()(WORDS)


@pytest.mark.parametrize(
    "name, text",
    [
        ("tokenizer.json", json.dumps({"version": "1.0", "model": {}})),
        ("task.json", "no JSON"),
        ("preprocessor.json", "[1]"),
        ("metadata.json", "[" * 100_000),
        ("model.weights.json", json.dumps({"weight_map": {"a": "../../x"}})),
    ],
)
def test_files_of_others_by_the_same_names_stay(name, text, tmp_path):
    model = task("classifier")
    model.preprocessor = None
    model.backbone.save_to_preset(tmp_path)
    os.remove(tmp_path / "metadata.json")
    (tmp_path / name).write_text(text)
    kept = (tmp_path / name).read_text()
    model.backbone.save_to_preset(tmp_path)
    if name != "metadata.json":  # which is written anew
        assert (tmp_path / name).read_text() == kept


def test_an_error_leaves_the_older_preset_whole(tmp_path, monkeypatch):
    model = task("classifier")
    model.save_to_preset(tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in files(tmp_path)}
    other = task("classifier")
    other.preprocessor = None

    def fails(filepath):
        raise OSError("No space left on device")

    monkeypatch.setattr(other, "save_task_weights", fails)
    with pytest.raises(OSError, match="No space"):
        other.save_to_preset(tmp_path)
    after = {name: (tmp_path / name).read_bytes() for name in files(tmp_path)}
    assert after == before
