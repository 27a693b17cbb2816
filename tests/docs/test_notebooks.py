"""Notebooks of tutorials run to their ends."""

import keras
import notebooks
import pytest

pytest.importorskip("nbclient")

# The others run only on JAX.
ON_ALL_BACKENDS = {
    "converting_an_encoder",
    "first_steps",
    "looking_inside",
    "parts_of_speech",
    "text_classification",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        name
        for name in notebooks.NAMES
        if name in ON_ALL_BACKENDS or keras.backend.backend() == "jax"
    ],
)
def test_a_notebook_runs_to_its_end_without_real_data(
    name, monkeypatch, tmp_path
):
    monkeypatch.delenv("KERAS_SYNTH_DATA", raising=False)
    executed = notebooks.runnable(notebooks.read(name), tmp_path).execute()
    assert all(
        cell.execution_count
        for cell in executed.cells
        if cell.cell_type == "code"
    )
