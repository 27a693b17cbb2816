"""The description of the package index: README.md, with links that work there.

Everything else is in pyproject.toml. Once that names the repository's address
(`[project.urls]`, `Repository`), links of README.md to files lead there; until
then their text stands without a link.
"""

import pathlib
import re
import tomllib

from setuptools import setup

FOLDER = pathlib.Path(__file__).parent


def description():
    """README.md without links to files of a checkout."""
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]
    address = project.get("urls", {}).get("Repository", "").rstrip("/")
    text = (FOLDER / "README.md").read_text(encoding="utf-8")

    def absolute(found):
        mark, words, path = found.groups()
        if not address:
            return "" if mark else words
        view = "raw" if mark else "blob"
        return f"{mark}[{words}]({address}/{view}/main/{path})"

    relative = r"(!?)\[([^]]*)\]\((?!https?://|#)([^)\s]+)\)"
    return re.sub(relative, absolute, text)


setup(
    long_description=description(),
    long_description_content_type="text/markdown",
)
