"""`report.html`: a comparison as one file, for those who were not there."""

import base64
import hashlib
import string
from importlib import resources

from keras_synth._system.files import writing
from keras_synth.compare.html.comparison import Comparison
from keras_synth.compare.html.markup import Html, joined
from keras_synth.compare.html.sections import SECTIONS
from keras_synth.compare.html.sections.opening import summary, title
from keras_synth.version import __version__


def write_html(rows, task, path):
    """Writes results as a page that needs no other file, and no network.

    Args:
        rows: List of results of equal settings and data, at least one.
        task: `Task` of all of them.
        path: Path of the file.

    Raises:
        UnwrittenError: It cannot be written.
    """
    text = page(Comparison.of(rows, task))
    with writing(path, "wb") as file:
        # Names come from a file, which may hold half of a character.
        file.write(text.encode("utf-8", "replace"))


def page(comparison):
    """The page of a `Comparison`, a string."""
    script = _file("page.js")
    digest = hashlib.sha256(script.encode()).digest()
    made = {
        "title": title(comparison),
        "summary": summary(comparison),
        "sections": joined(*(section(comparison) for section in SECTIONS)),
        "version": __version__,
        # The browser runs this script and no other, whatever a name holds.
        "script_hash": f"sha256-{base64.b64encode(digest).decode()}",
        "script": Html(script),
        "style": Html(_file("page.css")),
    }
    template = string.Template(_file("page.html"))
    return template.substitute({x: joined(y) for x, y in made.items()})


def _file(name):
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
