"""Shows the sections of Keras' docstrings on the pages of the API.

Griffe, which mkdocstrings reads docstrings with, knows Google's sections. Here
Keras' others become such sections, or plain Markdown.
"""

import re
import textwrap

import griffe

# Griffe's name of a section, and what to call it.
TITLES = {
    "Args": "Args: Arguments:",
    "Call arguments": "Other Args: Call arguments:",
    "Fields": "Attributes: Fields:",
    "Example": "**Example:**",
}
# These go on until a line that is not indented.
PLAIN = r"^(Returns|Yields|References):\n((?:(?: +.*)?(?:\n|\Z))*)"
# From a prompt to an empty line.
DOCTEST = r"^>>> (?:.+(?:\n|\Z))+"


def rewritten(text):
    """A docstring with sections that Griffe and Markdown know."""
    for name, title in TITLES.items():
        text = re.sub(rf"^{name}:$", title, text, flags=re.MULTILINE)
    text = re.sub(
        PLAIN,
        lambda found: f"**{found[1]}:**\n\n{textwrap.dedent(found[2])}",
        text,
        flags=re.MULTILINE,
    )
    return re.sub(
        DOCTEST,
        lambda found: f"```pycon\n{found[0].rstrip()}\n```\n",
        text,
        flags=re.MULTILINE,
    )


class KerasSections(griffe.Extension):
    """Rewrites each docstring before it is parsed."""

    def on_object(self, *, obj, **kwargs):
        if obj.docstring:
            obj.docstring.value = rewritten(obj.docstring.value)
        if obj.is_function:  # docstrings begin arguments with their types
            for parameter in obj.parameters:
                parameter.annotation = None
