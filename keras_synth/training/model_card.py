"""`write_model_card`: what a saved model is, for those who find it."""

import pathlib

from keras_synth._system.files import writing


def write_model_card(
    folder, title, description, data, figures, usage, licence=None
):
    """Writes the `README.md` of a preset, as Kaggle and Hugging Face show it.

    The file is replaced when the new one is on disk.

    Args:
        folder: Path of the preset's folder.
        title: String.
        description: String, Markdown: what the model is.
        data: String, Markdown: what it was trained on.
        figures: Dictionary, or list of tuples: names and values, strings or
            numbers.
        usage: String, Python code that loads and uses it.
        licence: Optional string, the SPDX identifier of the model's licence,
            such as `"apache-2.0"`.

    Example:

    ```python
    from keras_synth.training.model_card import write_model_card

    write_model_card(
        "tagger",
        "A tagger of English",
        "Labels words with their parts of speech.",
        "UD English EWT, 12,544 sentences.",
        {"accuracy, test": 0.9},
        "import keras_synth",
    )
    ```
    """
    rows = figures.items() if isinstance(figures, dict) else figures
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    head = ["library_name: keras-hub"]
    if licence is not None:
        head.append(f"license: {licence}")
    sections = [
        "\n".join(["---", *head, "---"]),
        f"# {title}",
        description.strip(),
        f"## Data\n\n{data.strip()}",
        f"## Results\n\n| figure | value |\n|---|---|\n{table}",
        f"## Usage\n\n```python\n{usage.strip()}\n```",
    ]
    with writing(pathlib.Path(folder) / "README.md") as file:
        file.write("\n\n".join(sections) + "\n")
