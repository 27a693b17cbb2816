"""Reads strings that name parts of a model: `"FR(rank=32) + V"`.

    sum := term ("+" term)*, or another operator between the terms
    term := [count "*"] name ["(" (sum | option) ("," option)* ")"]
    option := word "=" literal

It knows the grammar and no name: whoever has a table of names makes objects of
what it returns.
"""

import ast
import difflib
import re
from typing import NamedTuple

_PIECES = re.compile(
    r"""(?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
    r"|(?P<joint>(?<=\w)[\s-]+(?=[^\W\d]))"  # of a name: "fixed random"
    r"|(?P<blank>\s+)|(?P<comment>\#)",
    re.DOTALL,
)


class Term(NamedTuple):
    """A name with what stands in its brackets.

    Attributes:
        name: String as it was written, hyphens and blanks as underscores.
        options: Dictionary of the options' values.
        parts: Tuple of `Term`s, the sum that the name stands around.
        heads: Integer before the name, as in `4 * V`, or `None`.
    """

    name: str
    options: dict = {}
    parts: tuple = ()
    heads: int | None = None


def read(identifier, expected, operator=ast.Add):
    """Reads a sum of names.

    Args:
        identifier: String, `"FR(rank=32) + V"`. Values of options are Python
            literals.
        expected: String, which names there are, for errors.
        operator: Class of `ast`, what stands between the names.

    Returns:
        Tuple of `Term`s, at least one.

    Raises:
        ValueError: If the string does not follow the grammar.
    """
    try:
        code = _PIECES.sub(_normalised, identifier.strip())
        return _terms(ast.parse(code, mode="eval").body, operator)
    # What Python's parser raises for strings of all kinds, with `_term`.
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = getattr(error, "msg", None) or str(error) or "it is too long"
        raise ValueError(
            f"Cannot read the name: {why}. Expected {expected}. Options are "
            'Python literals in brackets: "name(option=8) + name". '
            f"Received: {identifier!r}"
        ) from error


def _normalised(match):
    if match["comment"]:
        raise ValueError("'#' belongs to no name")
    return match["quoted"] or ("_" if match["joint"] else " ")


def _terms(node, operator=ast.Add):
    nodes = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, operator):
        nodes.append(node.right)
        node = node.left
    return tuple(_term(node) for node in [node, *reversed(nodes)])


def _term(node):
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        count = node.left.value if isinstance(node.left, ast.Constant) else None
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(
                f"'{ast.unparse(node.left)}' before '*' is no positive integer"
            )
        return _term(node.right)._replace(heads=count)
    if isinstance(node, ast.Name):
        return Term(node.id)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise ValueError(f"'{ast.unparse(node)}' is no name")
    name, options = node.func.id, {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ValueError(f"'**' in the brackets of {name!r}")
        if keyword.arg in options:
            raise ValueError(f"{name!r} has {keyword.arg!r} twice")
        options[keyword.arg] = _literal(keyword)
    if len(node.args) > 1:
        raise ValueError(
            f"{name!r} has {len(node.args)} values without a name. All options "
            "are written option=value"
        )
    return Term(name, options, _terms(node.args[0]) if node.args else ())


def _literal(keyword):
    try:
        return ast.literal_eval(keyword.value)
    except (ValueError, TypeError) as error:
        value = ast.unparse(keyword.value)
        raise ValueError(
            f"`{keyword.arg}={value}` is no literal such as 8, None, (4, 8) or "
            "'tile', strings in quotes"
        ) from error


def spelled(terms):
    """The string that `read` reads as some terms."""
    return " + ".join(map(_spelled, terms))


def _spelled(term):
    inner = [spelled(term.parts)] if term.parts else []
    inner += [formatted(term.options)] if term.options else []
    count = "" if term.heads is None else f"{term.heads} * "
    return f"{count}{term.name}({', '.join(inner)})"


def did_you_mean(word, words):
    """A sentence that asks for the nearest of the known words, or nothing."""
    found = difflib.get_close_matches(word, words, n=1)
    return f" Did you mean {found[0]!r}?" if found else ""


def formatted(options):
    """Options as they stand in brackets."""
    return ", ".join(f"{name}={value!r}" for name, value in options.items())
