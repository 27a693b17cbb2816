"""What `mkdocs build` does besides: formulas, and pages of the top folder."""

import html
import pathlib
import re

from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).parent.parent
FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL
)


def on_files(files, config):
    """Adds pages of the files that GitHub shows from the top folder."""
    for name in ("CONTRIBUTING", "CHANGELOG"):
        text = (ROOT / f"{name}.md").read_text(encoding="utf-8")
        text = text.replace("](docs/", "](")
        files.append(File.generated(config, f"{name.lower()}.md", content=text))
    return files


def on_page_content(content, page, config, files):
    """Turns TeX into MathML, which browsers show without a script."""

    def as_mathml(found):
        display = "block" if found[1] == "div" else "inline"
        return convert(html.unescape(found[2]), display=display)

    return FORMULA.sub(as_mathml, content)
