"""Makes notebooks and pages of the tutorials.

A tutorial is a script. Its first docstring holds the title and a description,
all other docstrings at top level are text, and what stands between is code.

```shell
python docs/tutorials/build.py first_steps            # first_steps.ipynb
python docs/tutorials/build.py first_steps --execute  # first_steps.md, too
```

Without names all tutorials are built. A notebook shows the outputs of its page,
so that the same script and page always make the same notebook. The backend is
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
    def _render_traceback_(self):  # what IPython shows: this line alone
        return [str(self)]


if importlib.util.find_spec("keras_synth") is None:
    wheels = sorted(map(str, pathlib.Path().glob("keras_synth-*.whl")))
    sources = [f"{{wheel}}[jax,compare]" for wheel in wheels[-1:]]{address}
    if sources:
        %pip install -qqq "{{sources[0]}}"
    importlib.invalidate_caches()
if importlib.util.find_spec("keras_synth") is None:
    raise Missing(
        {advice}
    )
"""
FROM_ADDRESS = """
    sources += ["keras-synth[jax,compare] @ git+{address}"]"""
# What the error says: lines of source.
CHECKOUT = """\
"keras_synth is missing. In a checkout type: pip install -e "
        "'.[jax,compare]'. Elsewhere put the wheel that `make release` builds "
        "beside this notebook, and run this cell again.\""""
ONLINE = """\
"keras_synth is missing. Check that this machine is online, or put a "
        "wheel beside this notebook, and run this cell again.\""""
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
    return SETUP.format(
        address=FROM_ADDRESS.format(address=address) if address else "",
        advice=ONLINE if address else CHECKOUT,
    ).rstrip()


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


def with_outputs(new, name):
    """Gives a notebook's cells the outputs that its page shows."""
    path = FOLDER / f"{name}.md"
    page = path.read_text(encoding="utf-8") if path.exists() else ""
    _, _, *cells = new.cells
    blocks = [_block(cell) for cell in cells]
    start = 0
    for cell, block, following in zip(
        cells, blocks, [*blocks[1:], None], strict=True
    ):
        at = page.find(block, start)
        if at < 0:
            continue  # the script has changed since it was run
        start = at + len(block)
        end = page.find(following, start) if following else len(page)
        if cell.cell_type == "code":
            cell.outputs = _outputs(page[start:end])
    return new


def _block(cell):
    """What a page shows of a cell itself."""
    code = cell.cell_type == "code"
    return f"```python\n{cell.source}\n```" if code else cell.source


def _outputs(part):
    """The outputs that a part of a page shows."""
    found = []
    pattern = r"(`{3,})text\n(.*?)\n\1|!\[.*?\]\((img/.+?)\)"
    for match in re.finditer(pattern, part, re.DOTALL):
        if match[3]:
            image = base64.b64encode((FOLDER / match[3]).read_bytes())
            data = {"image/png": image.decode()}
            output = nbformat.v4.new_output("display_data", data)
        else:
            output = nbformat.v4.new_output("stream", text=match[2] + "\n")
        found.append(output)
    return found


def write_notebook(new, path):
    path.write_text(nbformat.writes(new) + "\n", encoding="utf-8")


def execute(new):
    """Runs a notebook in an empty folder; its cells then hold outputs."""
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(
            new, timeout=SECONDS, resources=resources, coalesce_streams=True
        ).execute()


def write_page(name, new):
    """Writes `NAME.md` and its pictures from an executed notebook."""
    images = FOLDER / "img"
    images.mkdir(exist_ok=True)
    for old in images.glob(f"{name}_[0-9]*.png"):
        old.unlink()
    title, _, *cells = new.cells  # all but the setup
    parts = [title.source, f"[Notebook]({name}.ipynb)"]
    pictures, heading = 0, ""
    for cell in cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            headings = re.findall(r"^#+ (.*)$", cell.source, re.MULTILINE)
            heading = [heading, *headings][-1]
            continue
        parts.append(_block(cell))
        for output in cell.outputs:
            data = output.get("data", {})
            if "image/png" in data:
                pictures += 1
                path = images / f"{name}_{pictures}.png"
                path.write_bytes(base64.b64decode(data["image/png"]))
                parts.append(f"![{heading}](img/{path.name})")
            elif text := _printed(output).rstrip():
                fence = "````" if "```" in text else "```"
                parts.append(f"{fence}text\n{text}\n{fence}")
    page = "\n\n".join(parts) + "\n"
    (FOLDER / f"{name}.md").write_text(page, encoding="utf-8")


def _printed(output):
    """What a page shows of an output: no warnings, and no `<... at 0x7f..>`."""
    if output.output_type == "stream":
        return output.text if output.name == "stdout" else ""
    text = output.get("data", {}).get("text/plain", "")
    return "" if re.fullmatch(r"<.* at 0x\w+>", text) else text


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="tutorials")
    parser.add_argument(
        "--execute", action="store_true", help="run them and write their pages"
    )
    settings = parser.parse_args()
    for name in settings.names:
        if name not in NAMES:
            known = ", ".join(NAMES)
            parser.error(f"no tutorial is called {name}; there are {known}")
    for name in settings.names or NAMES:
        if settings.execute:
            new = notebook(name)
            execute(new)
            write_page(name, new)
        new = with_outputs(notebook(name), name)
        write_notebook(new, FOLDER / f"{name}.ipynb")


if __name__ == "__main__":
    main()
