"""Makes notebooks and pages of the tutorials.

A tutorial is a script. Its first docstring holds the title and a description,
all other docstrings at top level are text, and the rest is code.

```shell
python docs/tutorials/build.py first_steps            # after changes of text
python docs/tutorials/build.py first_steps --execute  # after changes of code
```

Without names all tutorials are built. Cells with the same code as in the
present notebook keep their outputs, unless it is executed anew. The backend is
that of `KERAS_BACKEND`, or JAX.
"""

import argparse
import ast
import base64
import pathlib
import re
import tempfile
import tomllib

import jupytext
import nbformat
from nbclient import NotebookClient

FOLDER = pathlib.Path(__file__).parent
PROJECT = FOLDER.parent.parent / "pyproject.toml"
NAMES = sorted(
    path.stem for path in FOLDER.glob("*.py") if path.stem != "build"
)
SECONDS = 900  # for the slowest cell

SETUP = """\
import importlib.util
import os
import pathlib

os.environ.setdefault("KERAS_BACKEND", "jax")  # or "tensorflow", or "torch"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow's start is long


class Missing(ImportError):
    def _render_traceback_(self):  # IPython shows only this line
        return [str(self)]


if importlib.util.find_spec("keras_synth") is None:
    wheels = sorted(map(str, pathlib.Path().glob("keras_synth-*.whl")))
    sources = [f"{{wheel}}[jax,compare]" for wheel in wheels[-1:]]{address}
    if sources:
        %pip install -qqq "{{sources[0]}}"
    importlib.invalidate_caches()
if importlib.util.find_spec("keras_synth") is None:
    raise Missing(
        "keras_synth is missing. In a checkout type: pip install -e "
        "'.[jax,compare]'. Elsewhere put the wheel that `make release` builds "
        "next to this notebook, and run this cell again."
    )
"""
FROM_ADDRESS = """
    sources += ["keras-synth[jax,compare] @ git+{address}"]"""
METADATA = {
    "kernelspec": {
        "display_name": "Python 3",
        "language": "python",
        "name": "python3",
    },
    "language_info": {"name": "python"},
}


def notebook(name):
    """Makes the notebook of a tutorial: head, setup, then text and code."""
    script = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    head, *nodes = ast.parse(script).body
    lines = script.splitlines()
    percent, last = [], head.end_lineno
    for node in nodes:
        if _is_text(node):
            percent += ["# %%", *lines[last : node.lineno - 1]]
            percent += ["# %% [markdown]"]
            percent += lines[node.lineno - 1 : node.end_lineno]
            last = node.end_lineno
    percent += ["# %%", *lines[last:]]
    body = jupytext.reads("\n".join(percent), fmt="py:percent").cells
    new = nbformat.v4.new_notebook(metadata=METADATA)
    new.cells = [
        nbformat.v4.new_markdown_cell(_title(name, head.value.value)),
        nbformat.v4.new_code_cell(setup()),
        *(cell for cell in body if cell.source.strip()),
    ]
    for i, cell in enumerate(new.cells):
        cell.id, cell.metadata = f"cell-{i:02}", {}
        cell.source = cell.source.strip()
    return new


def _is_text(node):
    value = getattr(node, "value", None) if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _title(name, docstring):
    """The first cell: what `Title:` and `Description:` say, and the link."""
    pattern = r"\s*Title: (.+?)\s*Description: (.+?)\s*"
    found = re.fullmatch(pattern, docstring, re.DOTALL)
    if found is None:
        raise ValueError(
            f"{name}.py must begin with a docstring of 'Title: ...' and "
            f"'Description: ...'. Received: {docstring!r}"
        )
    title, description = (" ".join(text.split()) for text in found.groups())
    text = f"# {title}\n\n{description}"
    address = colab(name)
    return f"{text}\n\n[Open in Colab]({address})" if address else text


def repository():
    """The address that pyproject.toml names; `None` while it names none."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    address = project.get("urls", {}).get("Repository", "")
    return address.rstrip("/").removesuffix(".git") or None


def setup():
    """The second cell: the backend, and the package where it is missing."""
    address = repository()
    source = FROM_ADDRESS.format(address=address) if address else ""
    return SETUP.format(address=source).rstrip()


def colab(name):
    """The notebook's address in Colab; `None` unless GitHub is the home."""
    address = repository() or ""
    if not address.startswith("https://github.com/"):
        return None
    path = address.removeprefix("https://github.com/")
    return (
        f"https://colab.research.google.com/github/{path}/blob/main/"
        f"docs/tutorials/{name}.ipynb"
    )


def with_outputs(new, old):
    """Gives cells the outputs that the same code had in another notebook."""
    known = {x.source: x.outputs for x in old.cells if x.cell_type == "code"}
    for cell in new.cells:
        if cell.cell_type == "code":
            cell.outputs = known.get(cell.source, [])
    return new


def execute(new):
    """Runs a notebook in an empty folder; its cells then hold outputs."""
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(
            new,
            timeout=SECONDS,
            resources={"metadata": {"path": folder}},
            coalesce_streams=True,
        ).execute()
    return new


def cleaned(new):
    """Leaves text and pictures: no warnings, and no `<... at 0x7f..>`."""
    for cell in new.cells:
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = [x for old in cell.outputs for x in _shown(old)]
    return new


def _shown(output):
    data = output.get("data", {})
    if "image/png" in data:
        image = {"image/png": data["image/png"].strip()}
        yield nbformat.v4.new_output("display_data", image)
        return
    said = data.get("text/plain", "")
    if output.output_type == "stream":
        said = output.text if output.name == "stdout" else ""
    if (said := said.rstrip()) and not re.fullmatch(r"<.* at 0x\w+>", said):
        yield nbformat.v4.new_output("stream", text=f"{said}\n")


def page(name, new):
    """Returns the Markdown of a notebook, and its pictures by file names."""
    title, _, *cells = new.cells  # all but the setup
    parts = [title.source, f"[Notebook]({name}.ipynb)"]
    pictures, heading = {}, ""
    for cell in cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            headings = re.findall(r"^#+ (.*)$", cell.source, re.MULTILINE)
            heading = [heading, *headings][-1]
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for output in cell.outputs:
            if "data" in output:
                file = f"{name}_{len(pictures) + 1}.png"
                data = output["data"]["image/png"]
                pictures[file] = base64.b64decode(data)
                parts.append(f"![{heading}](img/{file})")
            else:
                text = output.text.rstrip()
                fence = "````" if "```" in text else "```"
                parts.append(f"{fence}text\n{text}\n{fence}")
    return "\n\n".join(parts) + "\n", pictures


def made(name, run=False):
    """Returns path -> bytes of a tutorial's notebook, page and pictures."""
    new, path = notebook(name), FOLDER / f"{name}.ipynb"
    if run:
        new = cleaned(execute(new))
    elif path.exists():
        new = with_outputs(new, nbformat.read(path, 4))
    text, pictures = page(name, new)
    return {
        path: f"{nbformat.writes(new)}\n".encode(),
        FOLDER / f"{name}.md": text.encode(),
        **{FOLDER / "img" / file: data for file, data in pictures.items()},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="tutorials")
    parser.add_argument(
        "--execute", action="store_true", help="run them for new outputs"
    )
    settings = parser.parse_args()
    for name in settings.names:
        if name not in NAMES:
            known = ", ".join(NAMES)
            parser.error(f"no tutorial is called {name}; there are {known}")
    for name in settings.names or NAMES:
        files = made(name, settings.execute)
        for old in (FOLDER / "img").glob(f"{name}_[0-9]*.png"):
            old.unlink()
        for path, data in files.items():
            path.write_bytes(data)


if __name__ == "__main__":
    main()
