"""Notebooks of tutorials are clean, and can be run elsewhere."""

import ast
import contextlib
import re
import sys
import tomllib
from importlib import metadata

import notebooks
import pytest
from notebooks import FOLDER, NAMES
from places import ROOT

pytestmark = pytest.mark.once  # nothing here depends on the backend


@pytest.mark.parametrize("name", NAMES)
def test_notebook_and_pictures_are_as_the_script_writes_them(name):
    found = notebooks.read(name)
    new = notebooks.refreshed(name, found)
    text = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    assert notebooks.written(new) == text, (
        f"{name}.ipynb: run `python docs/notebooks.py {name}`"
    )
    _, pictures = notebooks.page(name, found)
    for path in (FOLDER / "img").glob(f"{name}_[0-9]*.png"):
        assert pictures[path.name] == path.read_bytes(), path.name


def test_outputs_are_only_text_and_pictures():
    outputs = [
        {"output_type": "stream", "name": "stderr", "text": "a warning"},
        {"output_type": "stream", "name": "stdout", "text": ["said\n", "\n"]},
        *(
            {"output_type": "execute_result", "data": {"text/plain": text}}
            for text in ("<A at 0x7f12>", "7")
        ),
        {
            "output_type": "display_data",
            "data": {"image/png": "AA==\n", "text/plain": ""},
        },
    ]
    found = notebooks.read("first_steps")
    code = [i for i, x in enumerate(found["cells"]) if "outputs" in x][1]
    found["cells"][code] |= {"outputs": outputs, "execution_count": 3}
    cleaned = notebooks.refreshed("first_steps", found)["cells"][code]
    assert [x.get("text", x.get("data")) for x in cleaned["outputs"]] == [
        *(["said\n"], ["7\n"]),
        {"image/png": "AA=="},
    ]
    assert cleaned["execution_count"] is None


def test_a_page_shows_text_code_outputs_and_pictures():
    code = {"cell_type": "code", "outputs": [], "source": "1"}
    text = {"output_type": "stream", "name": "stdout", "text": ["```\n"]}
    picture = {"output_type": "display_data", "data": {"image/png": "AAAA"}}
    cells = [
        {"cell_type": "markdown", "source": ["# A title\n", "\n", "About."]},
        code,
        {"cell_type": "markdown", "source": "## A heading"},
        {**code, "source": "print()", "outputs": [text, picture]},
    ]
    page, pictures = notebooks.page("name", {"cells": cells})
    assert page == (
        "# A title\n\nAbout.\n\n[Notebook](name.ipynb){ download }\n\n"
        "## A heading\n\n```python\nprint()\n```\n\n````text\n```\n````\n\n"
        "![A heading](img/name_1.png)\n"
    )
    assert pictures == {"name_1.png": b"\0\0\0"}


# KerasHub imports it when it reads a model of Hugging Face.
NEEDED = {"converting_an_encoder": {"safetensors"}}
# Their first cells install these, unless they are there.
INSTALLED = {"networkx", "onnxruntime", "statsmodels"}


def requirements(*extras):
    """The distributions that `keras-synth` with extras installs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    lines, todo, found = project["dependencies"].copy(), [*extras], set()
    while todo:
        for line in optional[todo.pop()]:
            own = re.match(r"keras-synth\[(.*)\]", line)
            todo += own[1].split(",") if own else []
            lines += [] if own else [line]
    while lines:
        name = re.match(r"[\w.-]+", lines.pop())[0].lower().replace("_", "-")
        if name not in found:
            found.add(name)
            with contextlib.suppress(metadata.PackageNotFoundError):
                own = metadata.requires(name) or ()
                lines += [x for x in own if "extra ==" not in x]
    return found


def code_of(name):
    """The code of a notebook after its setup."""
    cells = notebooks.read(name)["cells"][2:]
    found = [notebooks.source(x) for x in cells if x["cell_type"] == "code"]
    return re.sub("^( *)%.*", r"\1pass", "\n".join(found), flags=re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_the_first_cells_install_all_that_a_tutorial_imports(name):
    tree = ast.parse(code_of(name))
    imported = NEEDED.get(name, set()).copy()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module.split(".")[0])
    imported -= {*sys.stdlib_module_names, "keras_synth"} | INSTALLED
    known = requirements("jax", "compare")
    homes = metadata.packages_distributions()
    for package in imported:
        home = homes.get(package, [package])[0].lower().replace("_", "-")
        assert home in known, package


def test_no_tutorial_relies_on_a_backend_that_may_be_missing():
    for name in NAMES:
        code = code_of(name)
        if '"KERAS_BACKEND":' in code:
            assert "find_spec(name)" in code, name


GITHUB = "https://github.com/owner/name"
WHEEL = "keras_synth-1.0-py3-none-any.whl"
MISSING = """
import importlib.util, pathlib
importlib.util.find_spec = lambda name: None  # as before it is installed
get_ipython().register_magic_function(print, magic_name="pip")
"""


def run_setup(before, folder):
    """The output of the second cell, and the line of its error."""
    errors = pytest.importorskip("nbclient.exceptions")
    found = notebooks.read("first_steps")
    new = notebooks.refreshed("first_steps", found)
    setup = new["cells"][1]
    setup["source"] = [MISSING, before, *setup["source"]]
    new["cells"] = [setup]
    client = notebooks.runnable(new, folder)
    with pytest.raises(errors.CellExecutionError, match="synth is missing"):
        client.execute()
    *said, error = client.nb.cells[0].outputs
    (line,) = error["traceback"]
    assert "\n" not in line
    return "".join(output["text"] for output in said), line


@pytest.fixture
def address(monkeypatch, tmp_path):
    """A function that names the repository's address."""

    def name(text):
        project = tmp_path / "pyproject.toml"
        project.write_text(f'[project.urls]\nRepository = "{text}"\n')
        monkeypatch.setattr(notebooks, "PROJECT", project)

    return name


def test_a_notebook_installs_the_package_or_says_how(address, tmp_path):
    """From a wheel in its folder, or from the repository."""
    for repository, before, install in (
        ("", "", None),
        (f"{GITHUB}.git", "", f"keras-synth[jax,compare] @ git+{GITHUB}"),
        (
            GITHUB,
            f"pathlib.Path({WHEEL!r}).touch()\n",
            f"{WHEEL}[jax,compare]",
        ),
    ):
        address(repository)
        said, line = run_setup(before, tmp_path)
        if install is None:
            assert not said
            assert "pip install -e" in line
            assert "make release" in line
        else:
            assert said.strip() == f'install -qqq "{install}"'


def test_colab_is_linked_where_the_repository_is_known(address):
    found = notebooks.read("first_steps")

    def title():
        nonlocal found
        found = notebooks.refreshed("first_steps", found)
        return notebooks.source(found["cells"][0])

    before = title()
    for elsewhere in ("", "https://example.org/owner/name"):
        address(elsewhere)
        assert notebooks.colab("first_steps") is None
        assert title() == before
        assert "Colab" not in before
    address(f"{GITHUB}.git")
    assert title() == (
        f"{before}\n\n[Open in Colab](https://colab.research.google.com/github/"
        "owner/name/blob/main/docs/tutorials/first_steps.ipynb)"
    )
    address("")
    assert title() == before


@pytest.mark.parametrize("name", NAMES)
def test_no_output_is_an_excuse_or_names_a_folder_of_one_machine(name):
    for cell in notebooks.read(name)["cells"]:
        for output in cell.get("outputs", []):
            said = "".join(output.get("text", []))
            for word in ("not on disk", "/tmp/", "/work", "/home/", "/root"):
                assert word not in said


def test_each_tutorial_has_a_card_with_picture_minutes_and_level():
    text = (FOLDER / "index.md").read_text(encoding="utf-8")
    _, *cards = text.split('<div markdown="block">')
    names = []
    for card in cards:
        picture, name = re.search(
            r"\[!\[[^]]+\]\((\S+\.png)\)\]\((\w+)\.ipynb\)", card
        ).groups()
        assert (FOLDER / picture).exists()
        assert re.search(
            r"^\*[1-9]\d* minutes? · (beginner|intermediate|advanced)\*$",
            card,
            re.MULTILINE,
        )
        names.append(name)
    assert sorted(names) == NAMES
