"""Examples in README, docs and docstrings run, or at least parse.

Pages define all names that they use. Docstrings may use `keras`, `keras_synth`
and `np` (those of `keras_synth.datasets` also the names of that module), and
define all others.
"""

import argparse
import ast
import contextlib
import doctest
import inspect
import io
import itertools
import re
import runpy
import shlex
import sys
import tomllib

import keras
import numpy as np
import public
import pytest
from places import ROOT

import keras_synth
from keras_synth import datasets
from keras_synth.compare import command

pytest.importorskip("keras_hub")
# Examples multiply arrays by tensors, print a tensor that PyTorch would
# differentiate, and load a model that they do not train on.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore:{message}")
    for message in (
        "__array_wrap__ must accept",
        "Converting a tensor with requires_grad",
        "Skipping variable loading",
        "`isinstance.treespec, LeafSpec.` is deprecated",  # PyTorch's export
    )
]

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PAGES += sorted((ROOT / "docs").rglob("*.md"))


def blocks(text, language):
    """`(line, code)` of each fenced block of a page or docstring."""
    pattern = rf"^( *)```{language}\n(.*?)^\1```$"
    for found in re.finditer(pattern, text, re.DOTALL | re.MULTILINE):
        code = re.sub(rf"^{found[1]}", "", found[2], flags=re.MULTILINE)
        yield text[: found.start(2)].count("\n"), code


def plain(printed):
    """Printed shapes look the same on all backends."""

    def as_tuple(found):
        return f"({found[1]},)" if found[1].isdigit() else f"({found[1]})"

    pattern = r"(?:torch\.Size|TensorShape)\(\[(.*?)\]\)"
    return re.sub(pattern, as_tuple, printed.strip())


def execute(code, namespace, name, line=0):
    """Runs code, and compares the output of a line with its comment."""
    source = "\n" * line + code
    for node in ast.parse(source, name).body:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            module = ast.Module([node], type_ignores=[])
            exec(compile(module, name, "exec"), namespace)
        last = source.split("\n")[node.end_lineno - 1]
        comment = re.search(r"^(?:print)?\(?.*\)  # (.+)$", last)
        is_print = ast.unparse(node).startswith("print(")
        if is_print and comment:
            assert plain(printed.getvalue()) == comment[1], (name, last)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Examples write files: aside. They read those of the repository."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)


# --- Pages ---


def pages_with(language):
    # Another test, which takes minutes, is for tutorials.
    return [
        page.relative_to(ROOT).as_posix()
        for page in PAGES
        if page.parent.name != "tutorials"
        and any(blocks(page.read_text(encoding="utf-8"), language))
    ]


# Keras passes an argument that JAX deprecates.
@pytest.mark.filterwarnings("ignore:.*native_serialization")
@pytest.mark.parametrize("page", pages_with("python"))
def test_the_python_of_a_page_runs(page, folder):
    """In order, and in one namespace."""
    namespace = {"__name__": "__main__"}
    text = (ROOT / page).read_text(encoding="utf-8")
    for line, code in blocks(text, "python"):
        execute(code, namespace, page, line)


class Parsed(Exception):
    """A script has parsed its command line."""


@pytest.fixture
def parses(monkeypatch):
    """A function that runs Python's arguments until they are parsed."""
    parse = argparse.ArgumentParser.parse_known_args

    def parse_and_stop(self, arguments=None, namespace=None):
        self.allow_abbrev = False
        _, unknown = parse(self, arguments, namespace)
        assert not unknown
        raise Parsed

    monkeypatch.setattr(
        argparse.ArgumentParser, "parse_known_args", parse_and_stop
    )

    def start(words):
        if re.fullmatch(r"examples/\w+\.py", words[0]):
            # These have constants instead of arguments.
            assert (ROOT / words[0]).exists()
            assert len(words) == 1
            raise Parsed
        if words[0] == "keras-synth":
            command.main(words[1:])
        elif words[0] == "-m":
            runpy.run_module(words[1], run_name="__main__")
        else:
            runpy.run_path(str(ROOT / words[0]), run_name="__main__")

    def run(words):
        monkeypatch.setattr(sys, "argv", words[words[0] == "-m" :])
        with pytest.raises(Parsed):
            start(words)

    return run


def check_make(targets):
    makefile = (ROOT / "Makefile").read_text()
    known = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split()
    assert targets
    assert {*targets} <= {*known}


def check_pip(words):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {
        name
        for word in words
        for found in re.findall(r"\[(.*)\]", word)
        for name in found.split(",")
    }
    assert extras <= {*project["optional-dependencies"]}
    for option, file in itertools.pairwise(words):
        assert option not in ("-c", "-r") or (ROOT / file).exists()


def test_the_extra_export_installs_what_pages_say_it_does():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = project["optional-dependencies"]["export"]
    extra = {re.match(r"[\w-]+", line)[0] for line in lines}
    serving = (ROOT / "docs/serving.md").read_text(encoding="utf-8")
    needed = {*re.findall(r"; needs `([\w-]+)`", serving)} - {"litert-torch"}
    assert len(needed) > 3
    speed = (ROOT / "docs/speed_up.md").read_text(encoding="utf-8")
    imported = {*re.findall(r"^from (onnx\w*) import", speed, re.MULTILINE)}
    assert imported
    assert needed | imported <= extra


def commands(text):
    for _, code in blocks(text, "shell"):
        for line in code.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            while words and re.fullmatch(r"export|[A-Z_]+=.*", words[0]):
                words = words[1:]
            if words:
                yield words


@pytest.mark.once
@pytest.mark.parametrize("page", pages_with("shell"))
def test_the_commands_of_a_page_parse(page, parses):
    for program, *words in commands((ROOT / page).read_text(encoding="utf-8")):
        if program == "make":
            check_make(words)
        elif program == "pip":
            check_pip(words)
        elif program == "keras-synth":
            parses([program, *words])
        elif program != "find":
            assert program == "python", program
            parses(words)


def anchors(page):
    """The anchors of a page's headings, as on GitHub."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.M)
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        words = re.sub(r"[^\w\- ]", "", heading.lower())
        yield words.replace(" ", "-")
    yield from re.findall(r"^::: (\S+)$", text, re.MULTILINE)


@pytest.mark.once
@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(page):
    """From pages that are not of the site: `make docs` follows its own."""
    page = ROOT / page
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    links += re.findall(r"^\[[^]]+\]: (\S+)$", text, re.MULTILINE)
    for link in links:
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.once
def test_tests_that_pages_name_are_there():
    known = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    for page in [*(ROOT / "docs").rglob("*.md"), ROOT / "CONTRIBUTING.md"]:
        named = re.findall(r"\btest_\w+\.py\b", page.read_text("utf-8"))
        assert {*named} <= known, page


# --- Docstrings ---


def documented():
    """`(name, docstring)` of all that is public and has an example."""
    for path, value in public.names().items():
        things = {path: value}
        if inspect.isclass(value):
            things |= {
                f"{path}.{key}": getattr(method, "__func__", method)
                for key, method in vars(value).items()
                if not key.startswith("_") and not inspect.isclass(method)
            }
        for name, thing in things.items():
            text = inspect.cleandoc(thing.__doc__ or "")
            if ">>>" in text or "```python" in text:
                yield name, text


EXAMPLES = dict(documented())


class Checker(doctest.OutputChecker):
    def check_output(self, want, got, optionflags):
        return super().check_output(plain(want), plain(got), optionflags)


def run_doctest(text, namespace, name):
    test = doctest.DocTestParser().get_doctest(text, namespace, name, name, 0)
    runner = doctest.DocTestRunner(
        Checker(), verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    report = []
    runner.run(test, out=report.append, clear_globs=False)
    assert not runner.failures, "".join(report)


@pytest.mark.parametrize("path", EXAMPLES)
def test_the_example_of_a_docstring_runs(path, folder):
    text = EXAMPLES[path]
    namespace = {"keras": keras, "keras_synth": keras_synth, "np": np}
    if path.startswith("datasets."):
        names = datasets.__all__
        namespace |= {name: getattr(datasets, name) for name in names}
    run_doctest(text, namespace, path)
    for _, code in blocks(text, "python"):
        execute(code, namespace, path)


@pytest.mark.once
def test_every_public_class_and_headline_function_has_an_example():
    expected = {"mixers.get", "models.config", "synthesizers.get"}
    expected |= {k for k, x in public.names().items() if inspect.isclass(x)}
    assert expected <= {*EXAMPLES}
