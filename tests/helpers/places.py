"""Where files of this repository are."""

import pathlib

HELPERS = pathlib.Path(__file__).parent
ROOT = HELPERS.parent.parent
