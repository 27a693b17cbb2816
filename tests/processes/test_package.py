"""Importing: one backend, nothing else, and little time."""

import importlib.util
import inspect
import os
import re
import subprocess
import sys
import tomllib

import keras
import pytest
from places import HELPERS, ROOT

import keras_synth
from keras_synth._backend import versions

OTHERS = {"tensorflow", "jax", "torch"} - {keras.backend.backend()}
BLOCK = """
import sys
sys.modules.update(dict.fromkeys({blocked!r}))
"""


def run(code, blocked=(), log_level="3", backend=None):
    """Runs Python code in a separate process, with blocked modules."""
    code = BLOCK.format(blocked=sorted(blocked)) + code
    backend = backend or keras.backend.backend()
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "KERAS_BACKEND": backend,
            "TF_CPP_MIN_LOG_LEVEL": log_level,
        },
        check=False,
    )


def test_the_core_works_with_only_one_backend():
    blocked = {
        *OTHERS,
        "keras_hub",
        "keras_nlp",
        "tensorflow_text",
        "matplotlib",
        "sklearn",
    }
    done = run(
        "import numpy, keras_synth\n"
        "layer = keras_synth.layers.SyntheticAttention(\n"
        "    2, 4, synthesizer='R+V', max_length=8)\n"
        "print(tuple(layer(numpy.ones((1, 5, 8), 'float32')).shape))\n"
        "print(keras_synth.datasets.generated_reviews(2)[1].tolist())\n",
        blocked,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "(1, 5, 8)"


@pytest.mark.skipif(
    keras.backend.backend() == "tensorflow", reason="needs what is blocked"
)
def test_text_is_tokenized_and_classified_without_tensorflow():
    """Also pairs; and the comparison's workers need none either."""
    done = run(
        "import sys\n"
        f"sys.path.insert(0, {str(HELPERS)!r})\n"
        "import numpy as np, small_tasks as t\n"
        "import keras_synth.compare.worker\n"
        "from keras_synth.training import LengthBuckets\n"
        "texts, labels = ['the film is good', 'a plot'] * 4, [1, 0] * 4\n"
        "for x in (texts, (texts, texts[::-1])):\n"
        "    model = t.task('classifier')\n"
        "    features, _ = model.preprocessor(x, labels)\n"
        "    model.preprocessor = None\n"
        "    features = {k: np.array(v) for k, v in features.items()}\n"
        "    model.fit(LengthBuckets(features, labels, 4), verbose=0)\n"
        "    print(features['token_ids'].shape)\n"
        "model = t.task('classifier')\n"
        "model.fit(texts, labels, verbose=0)\n"
        "print(len(model.predict(texts, verbose=0)) == len(texts))\n",
        # KerasHub imports rouge_score where it is, Keras scikit-learn, and both
        # SciPy, which asks even a blocked PyTorch for its tensors.
        {*OTHERS, "tensorflow_text", "rouge_score", "sklearn"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "True"


@pytest.mark.once
def test_importing_the_package_imports_little_and_changes_nothing():
    """KerasHub and plotting take seconds: not without being asked for.

    No stream is redirected, and no command line is read.
    """
    done = run(
        "import keras, os, sys, tempfile\n"
        "before = set(sys.modules)\n"
        "def refused(*args, **kwargs):\n"
        "    raise AssertionError('a stream is redirected')\n"
        "os.dup2 = tempfile.TemporaryFile = refused\n"
        "del sys.argv, sys.orig_argv\n"
        "import keras_synth\n"
        "print(*sorted(set(sys.modules) - before))\n",
        log_level="0",
    )
    assert done.returncode == 0, done.stderr
    new = done.stdout.split()
    assert new
    assert all(name.startswith("keras_synth") for name in new), new


@pytest.mark.once
def test_importing_names_the_extra_that_is_needed():
    done = run(
        "import importlib\n"
        "for name in ('models', 'surgery'):\n"
        "    try:\n"
        "        importlib.import_module(f'keras_synth.{name}')\n"
        "    except ImportError as error:\n"
        "        print(error)\n",
        {"keras_hub", "keras_nlp"},
    )
    errors = done.stdout.strip().splitlines()
    assert ["keras-synth[nlp]" in line for line in errors] == [True, True]


@pytest.mark.once
def test_importing_names_the_version_that_is_needed():
    done = run(
        "import sys, jax, keras\n"
        "def attempt(where, name, value):\n"
        "    kept = getattr(where, name)\n"
        "    setattr(where, name, value)\n"
        "    try:\n"
        "        import keras_synth\n"
        "    except ImportError as error:\n"
        "        print(error)\n"
        "    setattr(where, name, kept)\n"
        "attempt(sys, 'version', '3.10.13 (main)')\n"
        "attempt(keras, '__version__', '2.15.0')\n"
        "attempt(keras, '__version__', '3.9.2')\n"
        "attempt(jax, '__version__', '0.4.38')\n"
        "attempt(keras.backend, 'backend', lambda: 'numpy')\n"
        "attempt(keras, '__version__', '3.16.0.dev202611020352')\n"
        "import keras_synth\n",
        backend="jax",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "keras_synth needs Python 3.11 or newer. Received: 3.10.13",
        *(
            "keras_synth needs keras 3.15 or newer: pip install "
            f"'keras>=3.15'. Received: {version}"
            for version in ("2.15.0", "3.9.2")
        ),
        "keras_synth needs jax 0.5 or newer: pip install 'jax>=0.5'. "
        "Received: 0.4.38",
        "keras_synth needs the backend tensorflow, jax or torch. Set "
        "KERAS_BACKEND before Keras is imported. Received: numpy",
    ]


@pytest.mark.once
@pytest.mark.parametrize(
    "backend, words",
    [
        ("jax", "The backend jax is not installed. Install it, or set"),
        ("mxnet", "needs the backend tensorflow, jax or torch.*: mxnet"),
    ],
)
def test_importing_names_a_missing_or_an_unknown_backend(backend, words):
    done = run("import keras_synth\n", {"jax"}, backend=backend)
    last = done.stderr.splitlines()[-1]
    assert re.match(f"ImportError: .*{words}", last)


@pytest.mark.once
def test_the_needed_versions_are_those_of_pyproject():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    extras = project["optional-dependencies"]
    needed = [f"Python{project['requires-python']}", *project["dependencies"]]
    needed += [x for name in versions.BACKENDS for x in extras[name]]
    found = {f"{name}>={oldest}" for name, oldest in versions.OLDEST.items()}
    assert found == {x for x in needed if not x.startswith("numpy")}


@pytest.mark.once
def test_public_modules_are_where_their_names_say():
    """So that type checkers and editors find them."""
    others = "attend logits masks".split()
    names = [*keras_synth.__all__, *others]
    modules = [getattr(keras_synth, name) for name in names]
    modules = [x for x in modules if inspect.ismodule(x)]
    modules += [keras_synth.mixers.patterns, keras_synth.mixers.normalizers]
    for module in modules:
        spec = importlib.util.find_spec(module.__name__)
        assert spec.origin == module.__file__
        assert sys.modules[module.__name__] is module
        name = module.__name__.removeprefix("keras_synth.")
        parent = keras_synth.mixers if "." in name else keras_synth
        assert getattr(parent, name.rpartition(".")[2]) is module


@pytest.mark.once
def test_other_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        keras_synth.nothing  # noqa: B018


@pytest.mark.once
def test_the_commands_of_pyproject_are_functions():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for target in tomllib.loads(text)["project"]["scripts"].values():
        module, _, name = target.partition(":")
        assert callable(getattr(importlib.import_module(module), name, None))
