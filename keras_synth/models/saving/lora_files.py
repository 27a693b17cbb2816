"""Files of LoRA weights, by the paths of weights."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import h5py
import keras

from keras_synth.types import FilePath, Tensor

_OTHERS = "trained"  # the group of weights beyond KerasHub's format
_FACTOR = re.compile(r"(.*/)lora_(.+)_([ab])")


def add_others(filepath: FilePath, weights: Sequence[Any]) -> None:
    """Writes weights into a file of KerasHub's `save_lora_weights`."""
    with h5py.File(filepath, "a") as file:
        for weight in weights:
            value = keras.ops.cast(weight, "float32")
            file[f"{_OTHERS}/{weight.path}"] = keras.ops.convert_to_numpy(value)


def read(
    filepath: FilePath, layers: Sequence[keras.Layer]
) -> tuple[int, dict[str, Tensor]]:
    """Returns the rank and the arrays of a file, by path.

    KerasHub names factors by their index in `layers`.
    """
    values = {}

    def add(path, item):
        if isinstance(item, h5py.Dataset):
            values[path] = item[()]

    try:
        with h5py.File(filepath, "r") as file:
            file[_OTHERS].visititems(add)
            for name in {*file["lora"]} - {"vars"}:
                at = int(name)
                path = layers[at].path if at < len(layers) else f"layer {at}"
                for factor in ("lora_kernel_a", "lora_kernel_b"):
                    values[f"{path}/{factor}"] = file[
                        f"lora/{name}/vars/{factor}"
                    ][()]
            return int(file["lora/vars/rank"][()]), values
    except FileNotFoundError:
        raise
    except (OSError, KeyError):
        raise ValueError(
            "The file must be a complete file from `save_lora_weights`. "
            f"Received: {filepath}"
        ) from None


def differences(
    values: Mapping[str, Tensor], weights: Sequence[Any], adapted: set[str]
) -> list[str]:
    """Returns the paths that differ between a file and a backbone.

    Args:
        values: Dictionary of arrays, from `read`.
        weights: All weights of the backbone, before or after `enable_lora`.
        adapted: Paths of the layers whose kernels LoRA trains.
    """
    shapes = {weight.path: tuple(weight.shape) for weight in weights}
    kernels = {
        path.removesuffix("/lora_kernel_a")
        for path in values
        if path.endswith("/lora_kernel_a")
    }
    wrong = [*(kernels ^ adapted)]
    for path, value in values.items():
        shape, factor = value.shape, _FACTOR.fullmatch(path)
        if path in shapes or not factor:
            fits = shapes.get(path) == shape
        else:
            table = shapes.get(factor[1] + factor[2])
            axes = slice(-1) if factor[3] == "a" else slice(-1, None)
            fits = table is not None and table[axes] == shape[axes]
        wrong += [] if fits else [path]
    return sorted(wrong)
