"""Shows the sections of Keras' docstrings on the pages of the API.

Griffe, which mkdocstrings reads docstrings with, knows Google's sections. Here
Keras' others become such sections, or plain Markdown.
"""

import re
import textwrap

import griffe

# A section goes on until a line that is not indented.
SECTION = r"^{}:\n+((?:(?: +.*)?\n?)*)"
DOCTEST = re.compile(
    r"(?:^(?:>>>|\.\.\.).*\n?(?:^(?!>>>).+\n?)*)+", re.MULTILINE
)


def rewritten(text):
    """A docstring with sections that Griffe and Markdown know."""
    text = re.sub(
        r"^Call arguments:$", "Other Args: Call arguments:", text, flags=re.M
    )
    text = re.sub(r"^Fields:$", "Attributes: Fields:", text, flags=re.M)
    text = re.sub(r"^Example:$", "**Example**", text, flags=re.M)
    text = re.sub(
        SECTION.format("References"),
        lambda found: "**References**\n\n" + textwrap.dedent(found[1]),
        text,
        flags=re.M,
    )
    return DOCTEST.sub(
        lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text
    )


class KerasSections(griffe.Extension):
    """Rewrites each docstring before it is parsed."""

    def on_object(self, *, obj, **kwargs):
        if obj.docstring:
            obj.docstring.value = rewritten(obj.docstring.value)
