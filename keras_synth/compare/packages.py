"""`missing`: which packages are not installed."""

import importlib.util


def missing(packages):
    """Those of the packages, or backends, that are not installed here."""
    return [x for x in packages if importlib.util.find_spec(x) is None]
