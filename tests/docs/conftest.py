"""Modules of docs/ can be imported."""

import sys

from places import ROOT

sys.path.append(str(ROOT / "docs"))
