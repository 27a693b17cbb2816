"""The model card of a preset: what a saved model is, for those who find it."""

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


def save_with_card(
    model,
    folder,
    task,
    variant,
    data,
    figures,
    card="",
    licence=None,
    words=(),
):
    """Saves a model of `keras_synth.models` as a preset, with a model card.

    Args:
        model: A model with a `backbone`; with its `preprocessor`, it takes
            texts when it is loaded.
        folder: Path of the preset's folder.
        task: String, what it has learned, for the title.
        variant: String, the name of its synthesizer.
        data: String, Markdown: what it was trained on.
        figures: Dictionary: names and values; the number of parameters is
            added.
        card: String, Markdown, a sentence on what it does.
        licence: As of `write_model_card`.
        words: Optional list of strings, what token ids stand for where there
            is no preprocessor: `vocabulary.txt`, a token a line.

    Example:

    ```python
    from keras_synth.training.model_card import save_with_card

    backbone = keras_synth.models.SynthesizerBackbone(
        vocabulary_size=100,
        num_layers=1,
        num_heads=2,
        hidden_dim=16,
        intermediate_dim=32,
        synthesizer="R",
        max_sequence_length=8,
    )
    model = keras_synth.models.SynthesizerTextClassifier(backbone, 2)
    save_with_card(model, "topics", "topics", "R", "A few texts.", {})
    ```
    """
    folder, kind = pathlib.Path(folder), type(model).__name__
    sizes = model.backbone
    blocks = f"{sizes.num_layers} block{'s' * (sizes.num_layers > 1)}"
    model.save_to_preset(folder)
    if words:
        with writing(folder / "vocabulary.txt") as file:
            file.writelines(f"{word}\n" for word in words)
    write_model_card(
        folder,
        f"{kind}, {task}, {variant}",
        f"A {kind} of keras_synth: {blocks} of width {sizes.hidden_dim}, "
        f"{sizes.num_heads} heads, self-attention {variant}, at most "
        f"{sizes.max_sequence_length} tokens. {card}",
        data,
        {**figures, "parameters": f"{model.count_params():,}"},
        f"""
import keras_synth

model = keras_synth.models.{kind}.from_preset("{folder.name}")
{_usage(model)}
""",
        licence,
    )


def _usage(model):
    """Code that uses a model that was loaded, if it takes texts."""
    preprocessor = model.preprocessor
    if preprocessor is None:
        return ""
    texts = '["a text", "another"]'
    if getattr(preprocessor, "with_segments", False):
        texts = '(["a text"], ["another"])'
    names = "print(model.class_names)\n"
    return {
        "SynthesizerTextClassifier": (
            names * bool(getattr(model, "class_names", None))
            + f"print(model.predict({texts}))"
        ),
        "SynthesizerTokenClassifier": (
            'print(model.tag([["a", "list", "of", "words"]]))'
        ),
        "SynthesizerMaskedLM": (
            'print(model.fill_mask("a text with a [MASK]", top_k=3))'
        ),
    }.get(type(model).__name__, 'print(model.generate("a text"))')
