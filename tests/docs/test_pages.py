"""Pages that scripts write are up to date."""

import re

import gallery_cards
import notebooks
import pytest
import site_hooks
import write_names
from places import ROOT

from keras_synth import mixers
from keras_synth.registry import registry_of

pytestmark = pytest.mark.once  # names are the same on all backends

DOCS = ROOT / "docs"


def test_the_cheat_sheet_agrees_with_the_package():
    text = write_names.PAGE.read_text(encoding="utf-8")
    assert write_names.page(text) == text
    assert text.count(write_names.BEGIN) == text.count(write_names.END) == 1
    for kind in ("synthesizer", "pattern", "normalizer", "mixer"):
        for name in registry_of(kind).entries:
            assert f"| [`{name}`]" in text


@pytest.mark.parametrize("name, cards", [("index", 15), ("gallery", 117)])
def test_home_and_the_gallery_show_trained_models(name, cards):
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    shown = re.findall(r'src="(gallery/[^"]+)"', gallery_cards.fill(text))
    assert len(shown) == cards
    for file in shown:
        assert (DOCS / file).exists()


def test_the_gallery_shows_every_synthesizer_and_mixer():
    words = {*re.findall(r"\w+", " ".join(gallery_cards.names()))}
    composite = {"mixture", "heads", "pattern"}  # of parts, or made by hand
    for name, entry in registry_of("synthesizer").entries.items():
        assert {name, entry.letter} & words or name in composite, name
    assert {*mixers.names()} <= words
    assert {*gallery_cards.trained()} == {*gallery_cards.names()}


def test_each_page_has_a_description_that_search_engines_show():
    seen = set()
    pages = {x: x.read_text(encoding="utf-8") for x in DOCS.rglob("*.md")}
    for name in notebooks.NAMES:
        pages[name] = notebooks.page(name, notebooks.read(name))[0]
    for page, text in pages.items():
        text = re.sub(r"\A---.*?^---$", "", text, flags=re.DOTALL | re.M)
        if about := site_hooks.description(text):
            assert not re.search(r'\]\(|[`*"<]|^#', about), (page, about)
            assert len(about) <= 160
            assert about not in seen, (page, about)
            seen.add(about)
    assert len(seen) > 80


def test_the_site_has_an_address_if_the_repository_has_one_on_github():
    expected = "https://owner.github.io/name/"
    assert site_hooks.site_url("https://github.com/owner/name") == expected
    assert site_hooks.site_url("https://example.org/owner/name") is None
    assert site_hooks.site_url(None) is None
