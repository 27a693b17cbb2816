"""A process loads the files of another, whatever either built before."""

import keras
import numpy as np
import pytest
import saved_files
from backend import INSTALLED
from scripts import run_helper

HERE = keras.backend.backend()
# Half precision differs in the last bit that backends keep; bfloat16 has 8.
TOLERANCES = {"float16": 0.02, "bfloat16": 0.15, "float8": 0.15}


def test_another_process_loads_the_files(tmp_path):
    check(HERE, saved_files.FILES, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("backend", INSTALLED)
def test_every_backend_loads_the_files_of_this_backend(backend, tmp_path):
    check(backend, saved_files.FILES + saved_files.MORE_FILES, tmp_path)


def check(backend, files, folder):
    saved = saved_files.save(folder, files)
    run_helper("saved_files.py", folder, KERAS_BACKEND=backend)
    loaded = np.load(folder / f"{backend}.npz")
    for file in files:
        assert str(loaded[f"{file} weights"]) == saved[f"{file} weights"], file
        way = file.split()[1].removeprefix("mixed_")
        np.testing.assert_allclose(
            loaded[file],
            saved[file],
            atol=1e-5 if backend == HERE else TOLERANCES.get(way, 1e-4),
            err_msg=file,
        )
