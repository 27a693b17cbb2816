"""Finds expressions that pages, docstrings and messages should not contain.

    python docs/wording.py README.md docs keras_synth

Prints where each is and what to write instead, and fails if there is any. For
a folder it reads all pages and notebooks, or all modules if the folder has no
pages. In pages, code, comments, tags and the targets of links are not read. In
modules, only docstrings, comments and strings of several words are read.
"""

import ast
import io
import pathlib
import re
import sys
import tokenize

import notebooks

# An expression, in any case, and advice.
EXPRESSIONS = {
    r"(?<!there\s)\b(is|are|was|were) no\b(?! (longer|more)\b)": "is not a",
    r"(?<!there\s)\b(has|have|had|is|are) none\b": "does not have",
    r"(?<!let\s)\balone\b": "only",
    r"\b(stand|lie)s?\b": "is",
    r"\bbeside\b": "next to, with, or in addition to",
    r"\blikewise\b": "also",
    r"\bhence\b": "so",
    r"\bshall\b": "must, will or should",
    r"\bin the place of\b": "instead of",
    r"\bsome (hundred|thousand)s?\b": "a number: up to 1,000",
    r"\band the like\b": "the whole list",
    r"\bof (its|your|their) own\b": "your own ..., custom or separate",
    r"\bas (it is|they are)\b": "unchanged",
    r"\banew\b|\b(goes?|going) on\b": "again; continues",
    r"\bat hand\b": "available",
    r"\b(save|but) for\b|\ball but\b": "except",
    r"\b(refuse[sd]?|knows)\b": "raises a ValueError, or contains",
    r"\bone's\b|\bthe way out\b|\blikeness(es)?\b": "plainer words",
    r"((?<=[.:;]\s)|(?<=\n\n))what [^.?:;|]*[.:;|]": "a noun as the subject",
    r"^#+ [^\n?]*\bwhat\b[^\n?]*$": "a noun, or a question",
}
SKIPPED = re.compile(
    r"^( *)(?P<fence>```+)[^\n]*\n.*?^\1(?P=fence)$"
    r"|``.*?``|`[^`\n]*(\n[^`\n]+)?`|<!--.*?-->|<[^>]*>|(?<=\])\([^)]*\)",
    re.DOTALL | re.MULTILINE,
)


def findings(page):
    """Returns `(line, expression, advice)` of each in a page, in order."""
    prose = SKIPPED.sub(lambda found: re.sub(r"[^\n]", "~", found[0]), page)
    found = []
    for expression, advice in EXPRESSIONS.items():
        pattern = expression.replace(" ", r"\s+")
        for match in re.finditer(pattern, prose, re.MULTILINE | re.IGNORECASE):
            line = prose[: match.start()].count("\n") + 1
            found.append((line, " ".join(match[0].split()), advice))
    return sorted(found)


def prose_of(code):
    """The comments and strings of several words of a module, on their lines."""
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    texts = [
        (token.start[0], token.string.strip("# "))
        for token in tokens
        if token.type == tokenize.COMMENT
    ]
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Constant) and " " in str(node.value):
            texts.append((node.lineno, str(node.value)))
    lines = [""] * (code.count("\n") + 1)
    for first, text in texts:
        for i, line in enumerate(text.split("\n"), first - 1):
            if not line.lstrip().startswith((">>> ", "... ")):
                lines[i] += line.strip() if not lines[i] else f" {line}"
    return "\n".join(lines)


def findings_in(path):
    """Returns the `findings` of a page, of a notebook's page, or a module."""
    if path.suffix == ".ipynb":
        return findings(notebooks.page(path.stem, notebooks.read(path.stem))[0])
    text = path.read_text(encoding="utf-8")
    return findings(prose_of(text) if path.suffix == ".py" else text)


def files_of(path):
    """Returns the pages of a folder, or else its modules; or a file itself."""
    if not path.is_dir():
        return [path]
    pages = sorted([*path.rglob("*.md"), *path.rglob("*.ipynb")])
    return pages or sorted(path.rglob("*.py"))


def main():
    count = 0
    for name in sys.argv[1:]:
        files = files_of(pathlib.Path(name))
        if not files:
            sys.exit(f"Expected pages or modules. Received: {name}")
        for path in files:
            for line, words, advice in findings_in(path):
                print(f"{path}:{line}: {words[:60]!r}; write: {advice}")
                count += 1
    sys.exit(1 if count else 0)


if __name__ == "__main__":
    main()
