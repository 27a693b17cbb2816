"""Pages that scripts write are up to date, and README stays short."""

import importlib.util
import re
import subprocess
import sys

import pytest
from places import ROOT

from keras_synth import mixers
from keras_synth.registry import registry_of

pytestmark = pytest.mark.once  # names are the same on all backends

DOCS = ROOT / "docs"
KINDS = ("synthesizer", "pattern", "normalizer", "mixer")


def test_readme_fits_on_two_screens():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120


def test_readme_names_both_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(r"^make demo ", text, re.MULTILINE)
    assert re.search(r"^make test ", text, re.MULTILINE)


@pytest.mark.parametrize("kind", KINDS)
def test_the_cheat_sheet_names_everything(kind):
    text = (DOCS / "names.md").read_text(encoding="utf-8")
    title = f"## {kind.capitalize()}s\n"
    section = text.partition(title)[2].partition("\n## ")[0]
    listed = re.findall(r"^\| \[`(\w+)`\]", section, re.MULTILINE)
    assert listed == [*registry_of(kind).entries]


def test_the_cheat_sheet_is_what_the_package_says():
    script = DOCS / "write_names.py"
    run = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr


@pytest.fixture(scope="module")
def gallery():
    path = DOCS / "draw_gallery.py"
    spec = importlib.util.spec_from_file_location("draw_gallery", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_home_and_the_gallery_show_what_was_trained(gallery):
    for path, text in gallery.pages().items():
        assert path.read_text(encoding="utf-8") == text, (
            "run `python docs/draw_gallery.py --pages`"
        )
        for shown in re.findall(r'src="(gallery/[^"]+)"', text):
            assert (DOCS / shown).exists()


def test_the_gallery_shows_every_synthesizer_and_mixer(gallery):
    shown = " ".join(name for x in gallery.ENTRIES.values() for name in x)
    words = {*re.findall(r"\w+", shown)}
    composite = {"mixture", "heads", "pattern"}  # of parts, or made by hand
    for name, entry in registry_of("synthesizer").entries.items():
        assert {name, entry.letter} & words or name in composite, name
    assert {*mixers.names()} <= words
