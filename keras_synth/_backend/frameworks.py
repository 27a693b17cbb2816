"""The package of the backend in use, imported by Keras."""

import sys
from typing import Any

import keras

BACKEND = keras.backend.backend()


def _if_used(name: str) -> Any:
    return sys.modules[name] if name == BACKEND else None


# `None` for backends that are not in use.
TORCH, JAX, TENSORFLOW = map(_if_used, ("torch", "jax", "tensorflow"))
