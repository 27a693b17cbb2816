"""The pages of the API contain all public names, and no others."""

import re

import public
import pytest
from places import ROOT

pytestmark = pytest.mark.once  # names are the same on all backends

pytest.importorskip("keras_hub")

PAGES = ROOT / "docs" / "api"
PUBLIC = public.names()


def on_pages():
    """`(path below keras_synth, page)` of each entry."""
    for page in sorted(PAGES.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        for path in re.findall(r"^::: keras_synth\.(\S+)$", text, re.MULTILINE):
            yield path, page.stem


SHOWN = dict(on_pages())


def test_every_public_name_is_on_a_page():
    # A name that can be imported from two modules is on the page of one.
    objects = {id(PUBLIC.get(path)) for path in SHOWN}
    missing = [k for k, value in PUBLIC.items() if id(value) not in objects]
    assert not missing


def test_pages_show_only_public_names_and_each_once():
    assert {*SHOWN} <= {*PUBLIC}
    assert len([*on_pages()]) == len(SHOWN)


def test_every_page_is_in_the_index_and_in_the_navigation():
    index = (PAGES / "index.md").read_text(encoding="utf-8")
    site = (PAGES.parent.parent / "mkdocs.yml").read_text(encoding="utf-8")
    for page in {*SHOWN.values()}:
        assert f"({page}.md)" in index
        assert f": api/{page}.md\n" in site
