"""The words of all commands, their help, and how they start."""

import argparse
import re
import runpy
import sys

import pytest
from places import ROOT

from keras_synth._system import command_line
from keras_synth.commands import compare

pytestmark = pytest.mark.once  # nothing here depends on the backend

SCRIPTS = [
    path.relative_to(ROOT).as_posix()
    for folder in ("examples", "benchmarks")
    for path in sorted((ROOT / folder).glob("*.py"))
    if re.search(r"ArgumentParser|command\.script\(", path.read_text())
]
OLD = "synthesizers dataset buckets heads width layers contenders".split()


def parser_of(script, monkeypatch):
    """The parser of a script, as far as it runs until it parses."""
    found = []

    def parse(self, arguments=None, namespace=None):
        found.append(self)
        raise SystemExit

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse)
    monkeypatch.setattr(sys, "argv", [script])
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    with pytest.raises(SystemExit):
        runpy.run_path(str(ROOT / script), run_name="__main__")
    return found[0]


@pytest.mark.parametrize("script", ["compare", *SCRIPTS])
def test_every_option_has_help_in_the_common_words(script, monkeypatch):
    if script == "compare":
        parser = compare.parser()
    else:
        parser = parser_of(script, monkeypatch)
    help_text = parser.format_help()
    for line in ("default: None", "default: False", "default: []"):
        assert line not in help_text
    for action in parser._actions:
        assert action.help, action.option_strings
        assert not {f"--{name}" for name in OLD} & {*action.option_strings}
        if "(default: 0)" in action.help:
            assert re.search(r"\b0 for|weights, batches", action.help), action
    # argparse itself finds nothing wrong with it, such as a bare per cent.
    assert "usage:" in help_text


def test_old_names_of_options_are_told_of(monkeypatch, capsys):
    given = "x --width 8 --width=9 --hidden-dim 7 --widths 3".split()
    monkeypatch.setattr(sys, "argv", given)
    found = command_line.arguments({"--width": "--hidden-dim"})
    assert found == (
        "--hidden-dim 8 --hidden-dim=9 --hidden-dim 7 --widths 3".split()
    )
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert said[0].startswith("--width is now called --hidden-dim")


def test_settings_that_are_too_small_are_one_line(capsys):
    parser = argparse.ArgumentParser()
    settings = argparse.Namespace(epochs=1, batch_size=0)
    command_line.require_at_least(parser, settings, epochs=1)
    with pytest.raises(SystemExit):
        command_line.require_at_least(parser, settings, epochs=1, batch_size=1)
    words = "--batch-size must be at least 1. Received: 0"
    assert words in capsys.readouterr().err
