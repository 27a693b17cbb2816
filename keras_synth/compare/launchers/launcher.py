"""The contract of launchers."""

import contextlib
import dataclasses

from keras_synth.compare.settings import check_values


@dataclasses.dataclass(frozen=True)
class Launcher(contextlib.AbstractContextManager):
    """Runs trainings, each in a process with its own `KERAS_BACKEND`.

    Fields are options of the command line, made by `settings.setting`. In a
    `with` block a launcher is connected to where it runs them.
    """

    def __post_init__(self):
        check_values(self, dataclasses.fields(self))

    def __exit__(self, *error):
        """Ends the connection, if there is one."""

    def check(self, folder):
        """Raises if no run could end well there: called before anything long.

        Args:
            folder: Path of the folder for all files.

        Raises:
            OSError: The folder does not do.
            ValueError: A run would wait forever, or an option does not do.
        """

    def missing(self, backends):
        """Those of the backends that are not installed where runs would be."""
        raise NotImplementedError

    def __call__(self, runs, jobs):
        """Yields what happens to the runs, as it happens.

        Args:
            runs: List of `Run`.
            jobs: `Jobs`, which has their files.

        Yields:
            Tuples `(run, event)`. The first event of a run says that it has
            begun; the last one has the key `"result"`, a dictionary,
            `"failed"`, words, or `"unwritten"`, words: a file could not be
            written. Runs may overlap.

        Raises:
            UnwrittenError: A file could not be written here.
        """
        raise NotImplementedError
