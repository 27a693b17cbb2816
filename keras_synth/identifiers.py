"""Reads strings that name parts of a model: `"FR(rank=32) + V"`.

sum := term ("+" term)*, or another operator between the terms
term := [count "*"] name ["(" (sum | option) ("," option)* ")"]
option := word "=" literal
"""

import ast
import re
from typing import NamedTuple

_TOKENS = re.compile(
    r"""(?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
    r"|(?P<joint>(?<=\w)[\s-]+(?=[^\W\d]))"  # of a name: "fixed random"
    r"|(?P<blank>\s+)|(?P<comment>\#)|(?P<keyword>\bglobal\b)",
    re.DOTALL,
)


class Term(NamedTuple):
    """A name with the content of its brackets.

    Attributes:
        name: String; hyphens and blanks are underscores.
        options: Dictionary of the options' values. A value without a name,
            which is an error, has the key `None`.
        parts: Tuple of `Term`s, the sum in the brackets of the name.
        heads: Integer before the name, as in `4 * V`, or `None`.
        text: String, the term in the form that `read` accepts.
    """

    name: str
    options: dict = {}
    parts: tuple = ()
    heads: int | None = None
    text: str = ""


def read(
    identifier: str, expected: str, operator: type = ast.Add
) -> tuple[Term, ...]:
    """Reads a sum of names, a tuple of `Term`s, or raises.

    Args:
        identifier: String, `"FR(rank=32) + V"`.
        expected: String, the known names, for errors.
        operator: Class of `ast`, the operator between the names.
    """
    try:
        code = _TOKENS.sub(_normalised, identifier.strip())
        return _terms(ast.parse(code, mode="eval").body, operator)
    # Python's parser raises all of these; `_term` raises ValueError.
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = getattr(error, "msg", None) or str(error) or "it is too long"
        raise ValueError(
            f"Cannot read the name: {why}. Options are Python literals in "
            'brackets, such as "name(option=8) + name". '
            f"Expected {expected}. Received: {identifier!r}"
        ) from error


def _normalised(match):
    if match["comment"]:
        raise ValueError("a name cannot contain '#'")
    if match["keyword"]:  # reserved by Python
        return "global_"
    return match["quoted"] or ("_" if match["joint"] else " ")


def _terms(node, operator=ast.Add):
    if isinstance(node, ast.BinOp) and isinstance(node.op, operator):
        return *_terms(node.left, operator), _term(node.right)
    return (_term(node),)


def _term(node):
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        count = node.left.value if isinstance(node.left, ast.Constant) else None
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(
                f"'{ast.unparse(node.left)}' before '*' is not a positive "
                "integer"
            )
        term = _term(node.right)
        return term._replace(heads=count, text=ast.unparse(node))
    if isinstance(node, ast.Name):
        return Term(_name(node), text=_name(node))
    if isinstance(node, (ast.Tuple, ast.List)):
        raise ValueError(f'write "{_sum(node.elts)}" to add names')
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise ValueError(f"'{ast.unparse(node)}' is not a name")
    name, options, parts = _name(node.func), {}, ()
    for keyword in node.keywords:
        if keyword.arg in options:
            raise ValueError(f"{name!r} has {keyword.arg!r} twice")
        options[keyword.arg] = _literal(keyword)
    if len(node.args) > 1:
        raise ValueError(
            f"{name!r} has {len(node.args)} values without a name. Write "
            f'options as option=value, and a sum as "{name}({_sum(node.args)})"'
        )
    if node.args:
        try:  # a value without a name, or a sum
            options[None] = ast.literal_eval(node.args[0])
        except (ValueError, TypeError):
            parts = _terms(node.args[0])
    return Term(name, options, parts, text=ast.unparse(node))


def _name(node):
    return node.id.removesuffix("_")


def _sum(nodes):
    return " + ".join(map(ast.unparse, nodes))


def _literal(keyword):
    try:
        return ast.literal_eval(keyword.value)
    except (ValueError, TypeError) as error:
        value = ast.unparse(keyword.value)
        raise ValueError(
            f"`{keyword.arg}={value}` is not a literal such as 8, None, (4, 8) "
            "or 'tile', strings in quotes"
        ) from error
