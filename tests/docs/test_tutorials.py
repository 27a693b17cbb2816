"""Notebooks and pages of tutorials agree with their scripts."""

import ast
import contextlib
import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata

import pytest
import tutorials
from places import ROOT
from tutorials import FOLDER, NAMES

pytestmark = pytest.mark.once  # nothing here depends on the backend

pytest.importorskip("jupytext")
pytest.importorskip("nbclient")


@pytest.fixture(scope="module")
def build():
    return tutorials.builder()


def test_every_script_has_its_notebook_and_its_page(build):
    assert build.NAMES == NAMES
    for name in NAMES:
        assert (FOLDER / f"{name}.md").exists(), name


@pytest.mark.parametrize("name", NAMES)
def test_notebook_page_and_pictures_are_those_of_the_script(build, name):
    made = build.made(name)
    for path, data in made.items():
        assert path.read_bytes() == data, (
            f"{path.name}: run `python docs/tutorials/build.py {name}`"
        )
    pictures = {*(FOLDER / "img").glob(f"{name}_[0-9]*.png")}
    assert pictures == {path for path in made if path.suffix == ".png"}


def test_outputs_are_only_text_and_pictures(build):
    v4 = build.nbformat.v4
    outputs = [
        v4.new_output("stream", name="stderr", text="a warning"),
        v4.new_output("stream", text="said\n\n"),
        v4.new_output("execute_result", {"text/plain": "<A at 0x7f12>"}),
        v4.new_output("execute_result", {"text/plain": "7"}),
        v4.new_output(
            "display_data", {"image/png": "AA==\n", "text/plain": ""}
        ),
    ]
    cell = v4.new_code_cell("x", outputs=outputs, execution_count=3)
    cleaned = build.cleaned(v4.new_notebook(cells=[cell])).cells[0]
    assert [x.get("text", x.get("data")) for x in cleaned.outputs] == [
        *("said\n", "7\n"),
        {"image/png": "AA=="},
    ]
    assert cleaned.execution_count is None


def test_an_unknown_tutorial_is_an_error_with_the_known_ones():
    run = subprocess.run(
        [sys.executable, FOLDER / "build.py", "frist_steps"],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 2
    assert "no tutorial is called frist_steps" in run.stderr
    assert "first_steps" in run.stderr


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


@pytest.mark.parametrize("name", NAMES)
def test_the_first_cells_install_all_that_a_tutorial_imports(name):
    tree = ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
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
        script = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        if '"KERAS_BACKEND":' in script:
            assert "find_spec(name)" in script, name


MISSING = """
import importlib.util, pathlib
importlib.util.find_spec = lambda name: None  # as before it is installed
get_ipython().register_magic_function(print, magic_name="pip")
"""


def run_setup(build, before):
    """The output of the second cell, and the line of its error."""
    without = build.notebook("first_steps")
    setup = without.cells[1]
    setup.source = MISSING + before + setup.source
    without.cells = [setup]
    with pytest.raises(Exception, match="keras_synth is missing"):
        build.execute(without)
    *said, error = setup.outputs
    (line,) = error["traceback"]
    assert "\n" not in line
    return "".join(output["text"] for output in said), line


@pytest.fixture
def address(build, monkeypatch, tmp_path):
    """A function that names the repository's address."""

    def name(text):
        project = tmp_path / "pyproject.toml"
        project.write_text(f'[project.urls]\nRepository = "{text}"\n')
        monkeypatch.setattr(build, "PROJECT", project)

    return name


def test_a_notebook_without_the_package_says_in_one_line_what_to_do(
    build, address
):
    address("")
    said, line = run_setup(build, "")
    assert not said
    assert "pip install -e" in line
    assert "make release" in line


def test_a_notebook_installs_a_wheel_in_its_folder(build, address):
    address("https://github.com/owner/name")
    wheel = "keras_synth-1.0-py3-none-any.whl"
    said, _ = run_setup(build, f"pathlib.Path({wheel!r}).touch()\n")
    assert said.strip() == f'install -qqq "{wheel}[jax,compare]"'


def test_a_notebook_installs_from_the_repository_if_it_is_known(build, address):
    address("https://github.com/owner/name.git")
    said, _ = run_setup(build, "")
    source = "keras-synth[jax,compare] @ git+https://github.com/owner/name"
    assert said.strip() == f'install -qqq "{source}"'


def test_colab_is_linked_where_the_repository_is_known(build, address):
    for elsewhere in ("", "https://example.org/owner/name"):
        address(elsewhere)
        assert build.colab("first_steps") is None
        assert "Colab" not in build.notebook("first_steps").cells[0].source
    address("https://github.com/owner/name.git")
    assert build.colab("first_steps") == (
        "https://colab.research.google.com/github/owner/name/blob/main/"
        "docs/tutorials/first_steps.ipynb"
    )
    assert "Open in Colab" in build.notebook("first_steps").cells[0].source


def test_a_cell_that_was_changed_since_it_ran_has_no_outputs(build):
    old = build.nbformat.read(FOLDER / "first_steps.ipynb", 4)
    new = build.notebook("first_steps")
    changed = next(cell for cell in new.cells[2:] if "print(" in cell.source)
    changed.source += "\n# changed"
    build.with_outputs(new, old)
    assert not changed.outputs
    assert sum(bool(cell.get("outputs")) for cell in new.cells) > 3


@pytest.mark.parametrize("name", NAMES)
def test_no_output_is_an_excuse_or_names_a_folder_of_one_machine(name):
    text = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    for cell in json.loads(text)["cells"]:
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
            r"\[!\[[^]]+\]\((\S+\.png)\)\]\((\w+)\.md\)", card
        ).groups()
        assert (FOLDER / picture).exists()
        assert re.search(
            r"^\*[1-9]\d* minutes? · (beginner|intermediate|advanced)\*$",
            card,
            re.MULTILINE,
        )
        names.append(name)
    assert sorted(names) == NAMES
