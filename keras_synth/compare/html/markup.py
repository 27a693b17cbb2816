"""HTML that is escaped unless it says that it is HTML."""

import html


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(name, *content, **attributes):
    """An element: what is no `Html` in it is escaped.

    ```python
    print(element("p", "1 < 2", class_="small"))
    # <p class="small">1 &lt; 2</p>
    ```

    Args:
        name: String, `"p"`.
        *content: What is in it: `Html`, strings or numbers.
        **attributes: Its attributes; `class_` is `class`, underscores are
            hyphens, and those that are `None` are left out.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{given}>{joined(*content)}</{name}>")


def joined(*content):
    """Pieces one after the other, as `element` takes them."""
    return Html(
        "".join(
            x if isinstance(x, Html) else html.escape(str(x)) for x in content
        )
    )


def table(headings, rows, **attributes):
    """A table; on narrow screens each cell shows its heading beside it.

    Args:
        headings: List of strings.
        rows: List of lists of cells: a string, or a tuple of what is shown
            and the number to sort by. The first of each is its heading.
        **attributes: Of the table.
    """
    head = [element("th", x, scope="col") for x in headings]
    lines = []
    for row in rows:
        cells = []
        for index, (name, cell) in enumerate(zip(headings, row, strict=True)):
            shown, number = cell if isinstance(cell, tuple) else (cell, None)
            given = {"data_label": name, "data_value": number}
            if not index:
                given["scope"] = "row"
            kind = "td" if index else "th"
            cells.append(element(kind, shown, **given))
        lines.append(element("tr", *cells))
    made = element(
        "table",
        element("thead", element("tr", *head)),
        element("tbody", *lines),
        **attributes,
    )
    return element("div", made, class_="wide")
