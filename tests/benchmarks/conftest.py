"""Modules of benchmarks/ can be imported."""

import sys

from places import ROOT

sys.path.append(str(ROOT / "benchmarks"))
