"""What the files in the folder of a preset say."""

import json
import pathlib
from typing import Any

import keras

from keras_synth.types import FilePath


def policy_of_task(
    preset: FilePath, cls: type, options: dict[str, Any]
) -> Any | None:
    """Returns the dtype policy for a task, or `None` for its backbone's.

    `options` are the keyword arguments of `cls.from_preset`.
    """
    task = read_json(preset, "task.json")
    backbone = task.get("config", {}).get("backbone", {})
    name = task.get("registered_name", "").rpartition(">")[2]
    own = name == cls.__name__ and "num_classes" not in options
    saved = backbone.get("config", {}).get("dtype") if own else None
    if saved and saved.get("class_name") == "DTypePolicyMap":
        # With the policies of quantized output layers.
        return keras.dtype_policies.deserialize(saved)
    config = read_json(preset, "config.json").get("config", {})
    policy = (config.get("dtype") or {}).get("config", {})
    if str(policy.get("name")).startswith("mixed_"):
        # KerasHub's tasks do not load: "Invalid dtype: mixed_bfloat16".
        return keras.config.dtype_policy()
    return None


def read_json(preset: FilePath, name: str) -> dict[str, Any]:
    """Returns the content of a file of a preset, `{}` if it is not there."""
    file = pathlib.Path(preset) / name
    return json.loads(file.read_text("utf-8")) if file.exists() else {}
