"""The versions that this package needs."""

import re
import sys

BACKENDS = ("tensorflow", "jax", "torch")
# As in pyproject.toml, which is not read for a package in use.
OLDEST = {
    "Python": "3.11",
    "keras": "3.15",
    "tensorflow": "2.20",
    "jax": "0.5",
    "torch": "2.6",
}


def check_versions():
    """Raises an `ImportError` that names what is missing or too old."""
    _check("Python", sys.version.split()[0], "")
    try:
        import keras
    except ModuleNotFoundError as error:
        if error.name not in BACKENDS:
            raise
        raise ImportError(
            f"The backend {error.name} is not installed. Install it, or set "
            "KERAS_BACKEND to the one of tensorflow, jax and torch that is."
        ) from error
    except ValueError as error:
        if "Unable to import backend" not in str(error):
            raise
        _refuse(str(error).rpartition(" ")[2])
    _check("keras", keras.__version__)
    backend = keras.backend.backend()
    if backend not in BACKENDS:
        _refuse(backend)
    _check(backend, sys.modules[backend].__version__)


def _refuse(backend):
    raise ImportError(
        "keras_synth needs the backend tensorflow, jax or torch. Set "
        f"KERAS_BACKEND before Keras is imported. Received: {backend}"
    )


def _check(name, version, command=": pip install '{}>={}'"):
    oldest = OLDEST[name]
    if _numbers(version) < _numbers(oldest):
        command = command.format(name, oldest)
        raise ImportError(
            f"keras_synth needs {name} {oldest} or newer{command}. "
            f"Received: {version}"
        )


def _numbers(version):
    """Major and minor, also of `2.21.0-dev20261102` and `2.13.0+cpu`."""
    return [int(x) for x in re.findall(r"\d+", version)[:2]]
