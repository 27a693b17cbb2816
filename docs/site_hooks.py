"""Formulas, tables of records and further pages of the site."""

import html
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).parent.parent
sys.path.append(str(ROOT / "docs"))

import accelerator_tables  # noqa: E402
import benchmark_tables  # noqa: E402
import gallery_cards  # noqa: E402
import notebooks  # noqa: E402

# A link to a notebook leads to its page, unless it asks for the file.
NOTEBOOK = re.compile(r"(\]\([\w./]+)\.ipynb((?:#[\w-]+)?\))(?!\{)")
FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL
)


def site_url(address):
    """The site's address on GitHub's pages, or `None` elsewhere."""
    pattern = r"https://github\.com/([^/]+)/([^/]+)"
    found = re.fullmatch(pattern, address or "")
    return found and f"https://{found[1]}.github.io/{found[2]}/"


def description(markdown):
    """The first paragraph of a page in plain text, up to 160 letters."""
    text = re.sub(r"^```.*?^```$", "", markdown, flags=re.DOTALL | re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n", text):
        if re.match(r"\s*(#|\||<|\[!\[|!\[|:::|-|\*[^*]|$)", paragraph):
            continue
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)(\{[^}]*\})?", r"\1", paragraph)
        plain = " ".join(re.sub(r"[`*$]", "", plain).split()).replace('"', "'")
        return textwrap.shorten(plain, 160, placeholder=" ...")
    return None


def on_config(config):
    """Links the repository once pyproject.toml names it."""
    address = notebooks.repository()
    if address:
        config.repo_url = address
        config.repo_name = address.rsplit("/", 1)[-1]
        config.site_url = site_url(address)
    return config


def on_post_build(config):
    """Leaves out pages that work only at a known address."""
    if not config.site_url:
        for name in ("404.html", "sitemap.xml", "sitemap.xml.gz"):
            (pathlib.Path(config.site_dir) / name).unlink(missing_ok=True)


def on_files(files, config):
    """Adds pages of notebooks, and those that GitHub shows from the top."""
    from mkdocs.structure.files import File

    for name in ("CONTRIBUTING", "CHANGELOG"):
        text = (ROOT / f"{name}.md").read_text(encoding="utf-8")
        text = text.replace("](docs/", "](")
        files.append(File.generated(config, f"{name.lower()}.md", content=text))
    for name in notebooks.NAMES:
        text, pictures = notebooks.page(name, notebooks.read(name))
        made = {f"{name}.md": text}
        made |= {f"img/{file}": data for file, data in pictures.items()}
        for path, content in made.items():
            path = f"tutorials/{path}"
            if path not in files.src_uris:  # a file if other pages show it
                files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown, page, config, files):
    """Adds tables of records; ranks the API below pages that explain."""
    if about := description(markdown):
        page.meta.setdefault("description", about)
    markdown = NOTEBOOK.sub(r"\1.md\2", markdown)
    if re.match(r"api/|changelog|benchmarks/", page.url):
        page.meta.setdefault("search", {"boost": 0.1})
    if accelerator_tables.MARK in markdown:
        found = accelerator_tables.load()
        markdown += f"\n{accelerator_tables.text(found)}\n"
    return benchmark_tables.fill(gallery_cards.fill(markdown))


def on_page_content(content, page, config, files):
    """Turns TeX into MathML, which browsers show without a script."""
    from latex2mathml.converter import convert

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
