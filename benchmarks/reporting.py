"""Tables and pictures of measurements."""

import contextlib
import io
import pathlib

from keras_synth.compare.files import writing


def print_table(title, headings, rows, caption=None):
    """Prints figures as a table; names of variants are folded, not cut.

    Args:
        title: String.
        headings: List of strings; that of the first column is of names.
        rows: List of lists of strings, as many each.
        caption: Optional string, below.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=title, caption=caption, box=None, padding=(0, 1, 0, 0))
    for index, name in enumerate(headings):
        justify = "right" if index else "left"
        table.add_column(
            name, justify=justify, no_wrap=bool(index), overflow="fold"
        )
    for row in rows:
        table.add_row(*map(escape, row))  # brackets are not markup
    Console().print(table)


@contextlib.contextmanager
def picture(path, panels=1, size=(7, 4), label="epochs"):
    """Draws a picture; the file is there when it is complete.

    Args:
        path: String or path-like, a `.png` or `.svg` file.
        panels: Integer, how many panels lie side by side.
        size: Width and height in inches.
        label: String, what runs along the horizontal axes.

    Yields:
        Matplotlib's axes, an array of them for several panels.
    """
    from matplotlib import figure  # imported last: commands start faster

    made = figure.Figure(figsize=size, layout="constrained")
    yield made.subplots(1, panels)
    for axes in made.axes:
        axes.set_xlabel(label)
        axes.grid(alpha=0.3)
    drawn = io.BytesIO()
    made.savefig(drawn, format=pathlib.Path(path).suffix[1:], dpi=150)
    with writing(path, "wb") as file:
        file.write(drawn.getbuffer())
