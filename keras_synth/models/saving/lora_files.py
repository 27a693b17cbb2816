"""Files of LoRA weights: what they hold, and whether a backbone has it."""

import dataclasses
import re
from typing import Any

import h5py

from keras_synth.types import FilePath

BESIDE = "trained"  # group of a LoRA file, beside KerasHub's "lora"


@dataclasses.dataclass(frozen=True)
class LoraFile:
    """What a file of `save_lora_weights` holds.

    Attributes:
        path: String.
        rank: Integer.
        factors: Dictionary from the numbers of layers, among those that have
            weights, to the shapes of their two factors.
        beside: Dictionary from the paths of other weights to arrays, or
            `None` in files of version 0.1.0.
    """

    path: str
    rank: int
    factors: dict[int, Any]
    beside: dict[str, Any] | None

    @classmethod
    def read(cls, filepath: FilePath) -> "LoraFile":
        """Reads all but the factors, which KerasHub reads.

        Raises:
            FileNotFoundError: There is none.
            ValueError: It is another kind of file, or damaged.
        """
        path = str(filepath)
        try:
            with h5py.File(path, "r") as file:
                return cls(
                    path,
                    int(file["lora/vars/rank"][()]),
                    _factors(file["lora"]),
                    _arrays(file[BESIDE]) if BESIDE in file else None,
                )
        except FileNotFoundError:
            raise
        except (OSError, KeyError):
            raise ValueError(
                "The file must be one that `save_lora_weights` wrote, and "
                f"whole. Received: {path}"
            ) from None

    def check(self, layers: dict[int, Any], weights: dict[str, Any]) -> None:
        """Raises unless a backbone has what LoRA trained when it was saved.

        Args:
            layers: The layers that LoRA trains or would train, by number.
            weights: All weights of the backbone by path.
        """
        kernels = {at: layer.kernel.shape for at, layer in layers.items()}
        wrong = [f"layer {at}" for at in {*kernels} ^ {*self.factors}]
        wrong += [
            f"layer {at} with {tuple(kernels[at])}"
            for at, (a, b) in self.factors.items()
            if at in kernels and not _is_product(kernels[at], a, b)
        ]
        for path, array in (self.beside or {}).items():
            factor = re.fullmatch(r"(.*/)lora_(.+)_([ab])", path)
            table = weights.get(factor[1] + factor[2] if factor else path)
            if table is None:
                wrong.append(path)
            elif not _fits(table.shape, array.shape, factor and factor[3]):
                wrong.append(f"{path} with {tuple(table.shape)}")
        if wrong:
            raise ValueError(
                "LoRA weights belong to a backbone of the same synthesizer, "
                "width and length, and the same `target_layer_names`. Build "
                f"such a one. Received: {self.path}, other in {wrong[0]}"
                + (f" and {len(wrong) - 1} more" if len(wrong) > 1 else "")
            )


def _factors(group):
    return {
        int(name): tuple(
            item[f"vars/lora_kernel_{side}"].shape for side in "ab"
        )
        for name, item in group.items()
        if name != "vars"
    }


def _arrays(group):
    found = {}

    def read(path, item):
        if isinstance(item, h5py.Dataset):
            found[path] = item[()]

    group.visititems(read)
    return found


def _is_product(shape, a, b):
    return _fits(shape, a, "a") and _fits(shape, b, "b")


def _fits(shape, given, side):
    """Whether a weight, or side "a" or "b" of its update, may have a shape."""
    if side == "a":
        return tuple(given[:-1]) == tuple(shape[:-1])
    if side == "b":
        return given[-1] == shape[-1]
    return tuple(given) == tuple(shape)
