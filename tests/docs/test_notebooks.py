"""Notebooks of tutorials run to their ends."""

import keras
import pytest
import tutorials

pytest.importorskip("jupytext")
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
        for name in tutorials.NAMES
        if name in ON_ALL_BACKENDS or keras.backend.backend() == "jax"
    ],
)
def test_a_notebook_runs_to_its_end_without_real_data(name, monkeypatch):
    monkeypatch.delenv("KERAS_SYNTH_DATA", raising=False)
    build = tutorials.builder()
    notebook = build.notebook(name)
    build.execute(notebook)
    assert all(
        cell.execution_count
        for cell in notebook.cells
        if cell.cell_type == "code"
    )
