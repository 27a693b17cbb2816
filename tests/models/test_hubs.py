"""Presets go to Hugging Face and Kaggle, and come back, cards included.

No test reaches the network: a dictionary stands for a hub.
"""

import pathlib
from unittest.mock import create_autospec

import huggingface_hub
import kagglehub
import keras_hub
import numpy as np
import pytest
from backend import slow_but_on
from huggingface_hub.utils import EntryNotFoundError
from small_tasks import KINDS, WORDS, task

from keras_synth import models
from keras_synth.model_card import write_model_card

# Weights aside, nothing here depends on the backend.
pytestmark = slow_but_on("torch")

HUGGING_FACE = "hf://user/model"
KAGGLE = "kaggle://user/model/keras/small"
BASES = {
    "classifier": keras_hub.models.TextClassifier,
    "causal_lm": keras_hub.models.CausalLM,
    "seq2seq_lm": keras_hub.models.Seq2SeqLM,
}


def contents(folder):
    """`{path in the folder: bytes}`."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in pathlib.Path(folder).rglob("*")
        if path.is_file()
    }


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """What the two hubs hold: `{handle: {path: bytes}}`."""
    stored = {}
    cache = tmp_path / "cache"

    def create_repo(repo_id, exist_ok):
        stored.setdefault(repo_id, {})
        return huggingface_hub.RepoUrl(f"https://huggingface.co/{repo_id}")

    def upload_file(path_or_fileobj, path_in_repo, repo_id):
        stored[repo_id][path_in_repo] = pathlib.Path(
            path_or_fileobj
        ).read_bytes()

    def upload_folder(repo_id, folder_path):
        stored[repo_id] |= contents(folder_path)

    def cached(handle, path):
        place = cache / handle / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(stored[handle][path])
        return str(place)

    def hf_hub_download(repo_id, filename):
        if filename not in stored[repo_id]:
            raise EntryNotFoundError(filename)
        return cached(repo_id, filename)

    def model_upload(handle, folder):
        stored[handle] = contents(folder)

    def model_download(handle, path):
        if path not in stored[handle]:
            raise ValueError(f"{path} is not present in the model files")
        return cached(handle, path)

    def file_exists(repo_id, filename):
        return filename in stored[repo_id]

    for module, functions in {
        huggingface_hub: (
            create_repo,
            file_exists,
            hf_hub_download,
            upload_file,
            upload_folder,
        ),
        kagglehub: (model_download, model_upload),
    }.items():
        for function in functions:
            name = function.__name__
            real = getattr(module, name)  # whose arguments it has to take
            double = create_autospec(real, side_effect=function)
            monkeypatch.setattr(module, name, double)
    return stored


@pytest.fixture
def preset(tmp_path):
    """A function that saves a model with its card and returns the folder."""

    def save(model):
        folder = tmp_path / "preset"
        model.save_to_preset(folder)
        write_model_card(
            folder, "A model", "It reads.", "Ten words.", {"F1": 1}, "pass"
        )
        return folder

    return save


@pytest.mark.parametrize("uri", [HUGGING_FACE, KAGGLE])
@pytest.mark.parametrize("kind", KINDS)
def test_a_preset_comes_back_from_a_hub(kind, uri, hub, preset):
    model = task(kind)
    models.upload_preset(uri, preset(model))
    for kinds in (type(model), BASES[kind]):
        loaded = kinds.from_preset(uri)
        assert type(loaded) is type(model)
        for mine, its in zip(
            model.get_weights(), loaded.get_weights(), strict=True
        ):
            np.testing.assert_array_equal(mine, its)
        tokenizer = loaded.preprocessor.tokenizer
        assert tokenizer(WORDS) == model.preprocessor.tokenizer(WORDS)


@pytest.mark.parametrize("uri", [HUGGING_FACE, KAGGLE])
def test_the_whole_folder_is_uploaded_and_left_as_it_is(uri, hub, preset):
    folder = preset(task("classifier"))
    before = contents(folder)
    models.upload_preset(uri, folder)
    (uploaded,) = hub.values()
    assert uploaded == before == contents(folder)
    assert sorted(uploaded) == [
        "README.md",
        "assets/tokenizer/vocabulary.txt",
        "config.json",
        "metadata.json",
        "model.weights.h5",
        "preprocessor.json",
        "task.json",
        "task.weights.h5",
        "tokenizer.json",
    ]


def test_a_newer_card_replaces_the_older_one(hub, preset):
    folder = preset(task("classifier"))
    models.upload_preset(HUGGING_FACE, folder)
    write_model_card(folder, "Better", "It reads.", "More.", {}, "pass")
    models.upload_preset(HUGGING_FACE, folder)
    assert b"# Better" in hub["user/model"]["README.md"]


def test_kerashub_alone_replaces_and_deletes_the_card(hub, preset):
    """When this fails, `models.upload_preset` need not exist."""
    folder = preset(task("classifier"))
    keras_hub.upload_preset(HUGGING_FACE, str(folder))
    assert b"generated automatically" in hub["user/model"]["README.md"]
    assert not (folder / "README.md").exists()


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("config.json", "`save_to_preset`"),
        ("README.md", "write_model_card"),
        ("model.weights.h5", "weights file is missing"),
    ],
)
@pytest.mark.parametrize("uri", [HUGGING_FACE, KAGGLE])
def test_an_incomplete_folder_is_not_uploaded(uri, missing, words, hub, preset):
    folder = preset(task("classifier"))
    (folder / missing).unlink()
    with pytest.raises(FileNotFoundError, match=words):
        models.upload_preset(uri, folder)
    assert all({*files} <= {"README.md"} for files in hub.values())


@pytest.mark.parametrize(
    "missing", ["model.weights.h5", "assets/tokenizer/vocabulary.txt"]
)
def test_a_hub_without_a_file_of_the_preset_is_told(missing, hub, preset):
    models.upload_preset(HUGGING_FACE, preset(task("classifier")))
    del hub["user/model"][missing]
    with pytest.raises(FileNotFoundError):
        keras_hub.models.TextClassifier.from_preset(HUGGING_FACE)
