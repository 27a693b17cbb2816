"""Files of LoRA weights, by the paths of weights."""

import json
import os
import re

import h5py
import keras

# Names of weights that LoRA and quantization add to a backbone.
_ADDED = re.compile("lora|scale|zero|history|g_idx")


def save(filepath, backbone):
    """Writes a backbone's trained weights, and the shapes of all others."""
    rank, names = backbone.lora
    with h5py.File(filepath, "w") as file:
        file["lora"] = json.dumps(
            {"rank": rank, "names": names, "shapes": _shapes(backbone)}
        )
        for weight in backbone.trainable_weights:
            value = keras.ops.cast(weight, "float32")
            file[f"trained/{weight.path}"] = keras.ops.convert_to_numpy(value)


def load(filepath, backbone):
    """Loads a file from `save`, or raises before any weight changes."""
    options, values = _read(filepath)
    wrong = _differences(options["shapes"], _shapes(backbone))
    if not wrong and backbone.lora is None:
        backbone.enable_lora(options["rank"], options["names"])
    known = {weight.path: weight for weight in backbone.weights}
    wrong = wrong or _differences(_lora_shapes(values), _lora_shapes(known))
    if wrong:
        raise ValueError(
            "LoRA weights need a backbone with the same synthesizer, width, "
            "length, rank and `target_layer_names`. Build such a backbone. "
            f"Received: {filepath}, which differs in {wrong[0]}"
            + (f" and {len(wrong) - 1} more" if len(wrong) > 1 else "")
        )
    for path, value in values.items():
        known[path].assign(value)


def _read(filepath):
    """The options of LoRA, and the trained arrays by path."""
    values = {}

    def add(path, item):
        if isinstance(item, h5py.Dataset):
            values[path] = item[()]

    try:
        with h5py.File(os.fspath(filepath), "r") as file:
            file["trained"].visititems(add)
            return json.loads(file["lora"][()]), values
    except FileNotFoundError:
        raise
    except (OSError, KeyError):
        raise ValueError(
            "The file must be a complete file from `save_lora_weights`. "
            f"Received: {filepath}"
        ) from None


def _shapes(backbone):
    return {
        weight.path: [*weight.shape]
        for weight in backbone.weights
        if not _ADDED.search(weight.name)
    }


def _lora_shapes(weights):
    return {
        path: [*x.shape]
        for path, x in weights.items()
        if "lora" in path.rpartition("/")[2]
    }


def _differences(shapes, others):
    """The paths that only one has, or with other shapes."""
    return sorted(
        path
        for path in {*shapes, *others}
        if shapes.get(path) != others.get(path)
    )
