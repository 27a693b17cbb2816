"""The planted faults of `make test-full` are still faults of the code."""

import sys

import pytest
from places import ROOT

sys.path.append(str(ROOT / "tests"))

import mutants

pytestmark = pytest.mark.once  # nothing here depends on the backend


def test_each_fault_changes_one_place_of_the_code():
    assert not mutants.check_lines()
