"""`--callbacks MODULE:FUNCTION`: Keras callbacks of the user's for each run."""

import importlib
import pathlib
import sys
from typing import NamedTuple

from keras_synth.registry import did_you_mean


class RunInfo(NamedTuple):
    """The run that a function of `--callbacks` makes callbacks for.

    Attributes:
        name: String, no other run's in this folder.
        variant: String, `"R+V"`.
        num_heads: Integer.
        seed: Integer.
        backend: String.
        settings: Dictionary of the settings of all runs.
        folder: Path where callbacks of the run may write; it need not exist.
    """

    name: str
    variant: str
    num_heads: int
    seed: int
    backend: str
    settings: dict
    folder: pathlib.Path

    @classmethod
    def of(cls, run, settings, folder):
        """Describes a `Run` whose callbacks may write to a folder."""
        folder = pathlib.Path(folder)
        return cls(folder.name, *run, settings, folder)


def check(name, info):
    """Raises unless callbacks for a run can be made, and makes them once.

    Args:
        name: String, what `--callbacks` says.
        info: `RunInfo` of one of the runs.

    Raises:
        ValueError: There is no such module or function, it fails, or what it
            returns is no callback.
    """
    callbacks_of(name, info, pathlib.Path.cwd())


def callbacks_of(name, info, folder):
    """Calls the user's function.

    Args:
        name: String, `"module:function"`.
        info: `RunInfo`, its argument.
        folder: Path where modules are found beside those that are installed.

    Returns:
        List of `keras.callbacks.Callback`.
    """
    import keras  # commands answer to --help without

    function = _function(name, str(folder))
    try:
        found = function(info)
    except Exception as error:
        raise ValueError(
            f"--callbacks {name} must take one argument, the run, and "
            "return Keras callbacks. Received: "
            f"{type(error).__name__}: {_in_a_line(error)}"
        ) from error
    made = [*found] if isinstance(found, (list, tuple)) else [found]
    if not made or not all(
        isinstance(x, keras.callbacks.Callback) for x in made
    ):
        raise ValueError(
            f"--callbacks {name} must return a keras.callbacks.Callback, or a "
            f"list of them. Received: {_in_a_line(repr(found))}"
        )
    return made


def _function(name, folder):
    """The function of this name."""
    path, colon, attribute = name.partition(":")
    if not (path and colon and attribute):
        raise ValueError(
            "--callbacks must be MODULE:FUNCTION, such as "
            f"my_callbacks:tensorboard. Received: --callbacks {name}"
        )
    module = _module(path, folder)
    function = getattr(module, attribute, None)
    if function is None:
        hint = did_you_mean(attribute, [x for x in vars(module) if x[0] != "_"])
        raise ValueError(
            f"--callbacks: the module {path} has no {attribute!r}.{hint} "
            f"Received: --callbacks {name}"
        )
    if not callable(function):
        raise ValueError(
            "--callbacks must name a function. Received: --callbacks "
            f"{name}, which is a {type(function).__name__}"
        )
    return function


def _module(path, folder):
    """The module of this name, in a folder or installed."""
    if folder not in sys.path:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(path)
    except Exception as error:
        absent = getattr(error, "name", None)
        if (
            isinstance(error, ModuleNotFoundError)
            and absent
            and (path == absent or path.startswith(f"{absent}."))
        ):
            raise ValueError(
                f"--callbacks: there is no module {path!r} in {folder}, nor "
                f"is one installed. Received: --callbacks {path}:..."
            ) from error
        raise ValueError(
            f"--callbacks: the module {path!r} cannot be imported. Received: "
            f"{type(error).__name__}: {_in_a_line(error)}"
        ) from error


def _in_a_line(words, most=200):
    line = " ".join(str(words).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
