"""Formulas, tables of records and further pages of the site."""

import html
import pathlib
import re
import sys
import tomllib

from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).parent.parent
sys.path.append(str(ROOT / "docs"))

import accelerator_tables  # noqa: E402
import benchmark_tables  # noqa: E402
import gallery_cards  # noqa: E402

FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL
)


def repository():
    """The address that pyproject.toml names, or `None`."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    urls = tomllib.loads(text)["project"].get("urls", {})
    return urls.get("Repository", "").removesuffix(".git") or None


def on_config(config):
    """Links the repository once pyproject.toml names it."""
    address = repository()
    if address:
        config.repo_url = address
        config.repo_name = address.rstrip("/").rsplit("/", 1)[-1]
    return config


def on_files(files, config):
    """Adds pages of the files that GitHub shows from the top folder."""
    for name in ("CONTRIBUTING", "CHANGELOG"):
        text = (ROOT / f"{name}.md").read_text(encoding="utf-8")
        text = text.replace("](docs/", "](")
        files.append(File.generated(config, f"{name.lower()}.md", content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    """Adds tables of records; ranks the API below pages that explain."""
    if re.match(r"api/|changelog|results|performance|benchmarks/", page.url):
        page.meta.setdefault("search", {"boost": 0.1})
    if accelerator_tables.MARK in markdown:
        found = accelerator_tables.load()
        markdown += f"\n{accelerator_tables.text(found)}\n"
    return benchmark_tables.fill(gallery_cards.fill(markdown))


def on_page_content(content, page, config, files):
    """Turns TeX into MathML, which browsers show without a script."""

    def as_mathml(found):
        display = "block" if found[1] == "div" else "inline"
        formula = convert(html.unescape(found[2]), display=display)
        # The box that scrolls is around the formula: one that is the formula
        # itself cuts off what stands out above its line.
        return (
            f'<div class="formula">{formula}</div>'
            if display == "block"
            else formula
        )

    return FORMULA.sub(as_mathml, content)
