"""The release: the description, the files, and a first run elsewhere."""

import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile

import pytest
import setuptools
from places import ROOT

import keras_synth

pytestmark = pytest.mark.once  # nothing here depends on the backend

CONSTRAINTS = ROOT / "constraints.txt"
COMPARE = (
    "compare --task classification --examples 200 --epochs 1 --num-layers 1 "
    "--hidden-dim 16 --vocabulary-size 300 --variants V R --backends jax"
).split()


# --- The description ---


def description(monkeypatch, folder):
    """The metadata of setup.py in a folder."""
    given = {}
    monkeypatch.setattr(setuptools, "setup", given.update)
    script = folder / "setup.py"
    script.write_text((ROOT / "setup.py").read_text())
    runpy.run_path(str(script))
    return given["long_description"]


@pytest.fixture
def project(tmp_path):
    """A function that writes a README and, or not, the repository's address."""

    def write(readme, address=None):
        urls = f'[project.urls]\nRepository = "{address}"\n' if address else ""
        (tmp_path / "pyproject.toml").write_text(f"[project]\n{urls}")
        (tmp_path / "README.md").write_text(readme)
        return tmp_path

    return write


README = (
    "[more](docs/more.md#there), [paper](https://arxiv.org), [below](#end)\n"
    "![curves](docs/curves.png)\n"
)


def test_links_to_files_are_absolute_on_the_package_index(project, monkeypatch):
    folder = project(README, "https://example.org/owner/name/")
    assert description(monkeypatch, folder) == (
        "[more](https://example.org/owner/name/blob/main/docs/more.md#there), "
        "[paper](https://arxiv.org), [below](#end)\n"
        "![curves](https://example.org/owner/name/raw/main/docs/curves.png)\n"
    )


def test_without_an_address_links_to_files_are_text(project, monkeypatch):
    assert description(monkeypatch, project(README)) == (
        "more, [paper](https://arxiv.org), [below](#end)\n\n"
    )


def test_one_version_everywhere():
    version = keras_synth.__version__
    citation = (ROOT / "CITATION.cff").read_text()
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert f"\nversion: {version}\n" in citation
    released = re.search(r"^date-released: (\S+)$", citation, re.MULTILINE)[1]
    (first, *_) = re.findall(r"^## (.*)$", changelog, re.MULTILINE)
    assert first in (f"{version}, {released}", "Unreleased")


# --- Builds ---


def run(*words, **options):
    done = subprocess.run(
        [*map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """The folder with sdist and wheel, as `make release` builds them.

    It builds a copy, because a build writes into the folder of its sources,
    where another build may run.
    """
    pytest.importorskip("build", reason="needs the extra `release`")
    checkout, folder = map(tmp_path_factory.mktemp, ("checkout", "dist"))
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, checkout)
    junk = shutil.ignore_patterns("__pycache__")
    package = ROOT / "keras_synth"
    shutil.copytree(package, checkout / package.name, ignore=junk)
    environment = {**os.environ, "PIP_CONSTRAINT": str(CONSTRAINTS)}
    command = [sys.executable, "-m", "build", "--outdir", folder, checkout]
    run(*command, env=environment)
    return folder


def tracked():
    """The package's files in git."""
    names = run("git", "ls-files", "keras_synth", cwd=ROOT).split()
    return {*names, "keras_synth_command.py"}


def test_the_data_of_the_wheel_are_all_files_that_are_not_python():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    patterns = tomllib.loads(text)["tool"]["setuptools"]["package-data"]
    package = ROOT / "keras_synth"
    found = [{*package.glob(x)} for x in patterns["keras_synth"]]
    assert all(found), "a pattern without files"
    others = {ROOT / x for x in tracked() if not x.endswith(".py")}
    assert set().union(*found) == others


@pytest.mark.slow
def test_wheel_and_sdist_contain_only_the_package(dist):
    (wheel,) = dist.glob("*.whl")
    names = {*zipfile.ZipFile(wheel).namelist()}
    metadata = {name for name in names if ".dist-info/" in name}
    assert names - metadata == tracked()
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as file:
        names = {
            name.partition("/")[2]
            for name in file.getnames()
            if file.getmember(name).isfile()
        }
    beside = {x for x in names - tracked() if ".egg-info/" not in x}
    assert beside == {
        "CHANGELOG.md",
        "CITATION.cff",
        "LICENSE",
        "MANIFEST.in",
        "PKG-INFO",
        "README.md",
        "pyproject.toml",
        "setup.cfg",
        "setup.py",
    }
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment(dist, tmp_path):
    """README's example and the command, outside of the checkout."""
    (wheel,) = dist.glob("*.whl")
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "KERAS_BACKEND")
    }
    environment |= {"KERAS_BACKEND": "jax", "TF_CPP_MIN_LOG_LEVEL": "3"}
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    programs = tmp_path / "venv" / "bin"
    install = [programs / "python", "-m", "pip", "install", "--quiet"]
    run(*install, "-c", CONSTRAINTS, f"{wheel}[jax,compare]", env=environment)
    options = {"cwd": tmp_path, "env": environment}
    where = "import keras_synth; print(keras_synth.__file__)"
    assert str(programs.parent) in run(
        programs / "python", "-c", where, **options
    )
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = re.search(r"```python\n(.*?)```", readme, re.DOTALL)[1]
    assert "(8, 2)" in run(programs / "python", "-c", example, **options)
    out = run(programs / "keras-synth", *COMPARE, **options)
    assert "variant backend seeds accuracy, %" in out
    assert (tmp_path / "compare" / "report.html").exists()
