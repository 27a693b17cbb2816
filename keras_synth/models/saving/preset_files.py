"""Which files of a folder a preset wrote."""

import json
import pathlib
import re

CONFIG = "config.json"  # of a backbone: every preset of a model has it
CONFIGS = (CONFIG, "task.json", "preprocessor.json", "tokenizer.json")
WEIGHTS = {  # by the config that they belong to
    CONFIG: ("model.weights.h5",),
    "task.json": ("task.weights.h5",),
}
VOCABULARIES = ("vocabulary.txt", "vocabulary.json", "merges.txt")
SHARDS = "model.weights.json"


def files_of_preset(folder: pathlib.Path) -> set[pathlib.Path]:
    """Finds what `save_to_preset` of a model once wrote into a folder.

    Recognized by names and, of those that others use as well, by what they
    hold: a `tokenizer.json` of Hugging Face is none. A folder without the
    config of a model holds no preset, perhaps a tokenizer that the model is to
    be saved beside.

    Args:
        folder: Path of a folder that need not exist.

    Returns:
        Set of paths relative to it; model cards and files of other names are
        not among them.
    """
    ours = [name for name in CONFIGS if _is_serialized(folder / name)]
    if CONFIG not in ours:
        return set()
    names = [*ours, *(name for own in ours for name in WEIGHTS.get(own, ()))]
    if "keras_hub_version" in _read(folder / "metadata.json"):
        names.append("metadata.json")
    names += _shards(folder)
    if "tokenizer.json" in ours:
        names += [f"assets/tokenizer/{name}" for name in VOCABULARIES]
    return {pathlib.Path(name) for name in names if (folder / name).is_file()}


def remove_files(folder: pathlib.Path, files: set[pathlib.Path]) -> None:
    """Removes files of a folder, and the folders of theirs that are empty."""
    for file in files:
        (folder / file).unlink(missing_ok=True)
    inside = {parent for file in files for parent in file.parents}
    for parent in sorted(inside - {pathlib.Path()}, reverse=True):
        place = folder / parent
        if place.is_dir() and not any(place.iterdir()):
            place.rmdir()


def _is_serialized(path):
    """Whether it holds an object as Keras writes it down."""
    return {"class_name", "config", "registered_name"} <= _read(path).keys()


def _shards(folder):
    names = {
        name
        for kept in _read(folder / SHARDS).get("weight_map", {}).values()
        for name in ([kept] if isinstance(kept, str) else kept)
        if re.fullmatch(r"model_\d+\.weights\.h5", name)
    }
    return [SHARDS, *names] if names else []


def _read(path):
    """A JSON file's dictionary; an empty one where there is none."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
