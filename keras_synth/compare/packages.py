"""Packages that are installed, or not."""

import importlib.util


def missing(packages):
    """Those of the packages, or backends, that are not installed here."""
    return [x for x in packages if importlib.util.find_spec(x) is None]


def require(packages, what):
    """Raises an ImportError that says what needs those that are missing."""
    if absent := missing(packages):
        raise ImportError(
            f"{what} needs {', '.join(absent)}: "
            'pip install "keras-synth[compare]"'
        )
