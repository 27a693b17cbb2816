"""Pages and pictures of the tutorials' notebooks, and their outputs.

A notebook is edited like any other, in Jupyter. Its first cell holds a title
and a description, its second sets the environment up: this script writes both
anew, and removes what depends on the machine.

```shell
python docs/notebooks.py first_steps            # after changes of text
python docs/notebooks.py first_steps --execute  # after changes of code
```

Without names all notebooks are written. The backend is that of `KERAS_BACKEND`,
or JAX.
"""

import argparse
import base64
import json
import pathlib
import re
import tempfile
import tomllib

FOLDER = pathlib.Path(__file__).parent / "tutorials"
PROJECT = FOLDER.parent.parent / "pyproject.toml"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
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


def read(name):
    """The notebook of a tutorial."""
    text = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    return json.loads(text)


def source(cell):
    return "".join(cell["source"])


def repository():
    """The address that pyproject.toml names; `None` while it names none."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    address = project.get("urls", {}).get("Repository", "")
    return address.rstrip("/").removesuffix(".git") or None


def setup():
    """The second cell: the backend, and the package where it is missing."""
    address = repository()
    more = FROM_ADDRESS.format(address=address) if address else ""
    return SETUP.format(address=more).rstrip()


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


def refreshed(name, notebook):
    """Returns a notebook with its first two cells, and only its outputs."""
    cells = [cell for cell in notebook["cells"] if source(cell).strip()]
    title = re.sub(r"\n\n\[Open in Colab\].*", "", source(cells[0]).strip())
    if address := colab(name):
        title += f"\n\n[Open in Colab]({address})"
    sources = [title, setup(), *(source(x).strip() for x in cells[2:])]
    new = []
    for i, (cell, text) in enumerate(zip(cells, sources, strict=True)):
        kept = {"cell_type": cell["cell_type"], "id": f"cell-{i:02}"}
        kept |= {"metadata": {}, "source": text.splitlines(keepends=True)}
        if cell["cell_type"] == "code":
            shown = [x for old in cell["outputs"] for x in _shown(old)]
            kept |= {"execution_count": None, "outputs": shown}
        new.append(kept)
    kernel = {"display_name": "Python 3", "language": "python"}
    metadata = {
        "kernelspec": {**kernel, "name": "python3"},
        "language_info": {"name": "python"},
    }
    form = {"nbformat": 4, "nbformat_minor": 5}
    return {"cells": new, "metadata": metadata, **form}


def _shown(output):
    """Text and pictures: no warnings, and no `<... at 0x7f..>`."""
    data = output.get("data", {})
    if "image/png" in data:
        image = "".join(data["image/png"]).strip()
        yield {
            "data": {"image/png": image},
            "metadata": {},
            "output_type": "display_data",
        }
        return
    said = "".join(data.get("text/plain", ""))
    if output["output_type"] == "stream":
        said = "".join(output["text"]) if output["name"] == "stdout" else ""
    if (said := said.rstrip()) and not re.fullmatch(r"<.* at 0x\w+>", said):
        text = f"{said}\n".splitlines(keepends=True)
        yield {"name": "stdout", "output_type": "stream", "text": text}


def written(notebook):
    """A notebook as text, in the form that Jupyter writes."""
    text = json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False)
    return f"{text}\n"


def runnable(notebook, folder):
    """A client whose `execute()` runs a notebook in a folder."""
    import nbformat
    from nbclient import NotebookClient

    return NotebookClient(
        nbformat.reads(written(notebook), 4),
        timeout=SECONDS,
        resources={"metadata": {"path": str(folder)}},
        coalesce_streams=True,
    )


def page(name, notebook):
    """Returns the Markdown of a notebook, and its pictures by file names."""
    title, _, *cells = notebook["cells"]  # all but the setup
    parts = [source(title), f"[Notebook]({name}.ipynb){{ download }}"]
    pictures, heading = {}, ""
    for cell in cells:
        if cell["cell_type"] == "markdown":
            parts.append(source(cell))
            headings = re.findall(r"^#+ (.*)$", parts[-1], re.MULTILINE)
            heading = [heading, *headings][-1]
            continue
        parts.append(f"```python\n{source(cell)}\n```")
        for output in cell["outputs"]:
            if "data" in output:
                file = f"{name}_{len(pictures) + 1}.png"
                data = output["data"]["image/png"]
                pictures[file] = base64.b64decode(data)
                parts.append(f"![{heading}](img/{file})")
            else:
                text = "".join(output["text"]).rstrip()
                fence = "````" if "```" in text else "```"
                parts.append(f"{fence}text\n{text}\n{fence}")
    return "\n\n".join(parts) + "\n", pictures


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="notebooks")
    parser.add_argument(
        "--execute", action="store_true", help="run them for new outputs"
    )
    settings = parser.parse_args()
    for name in settings.names:
        if name not in NAMES:
            known = ", ".join(NAMES)
            parser.error(f"no notebook is called {name}; there are {known}")
    for name in settings.names or NAMES:
        new = refreshed(name, read(name))
        if settings.execute:
            with tempfile.TemporaryDirectory() as folder:
                new = refreshed(name, runnable(new, folder).execute())
        path = FOLDER / f"{name}.ipynb"
        path.write_text(written(new), encoding="utf-8")
        for file, data in page(name, new)[1].items():
            if (FOLDER / "img" / file).exists():  # other pages show it
                (FOLDER / "img" / file).write_bytes(data)


if __name__ == "__main__":
    main()
