"""Four classification tasks of the GLUE benchmark."""

from pathlib import Path
from typing import NamedTuple

from keras_synth.datasets.class_names import CLASS_NAMES
from keras_synth.datasets.csv_files import load_csv
from keras_synth.datasets.files import find_files


class _Columns(NamedTuple):
    text: str | int | tuple
    label: str | int
    header: bool = True
    classes: tuple = ("0", "1")  # as the files write them


_TASKS = {
    "CoLA": _Columns(text=3, label=1, header=False),
    "SST-2": _Columns("sentence", "label"),
    "RTE": _Columns(
        ("sentence1", "sentence2"), "label", classes=CLASS_NAMES["RTE"]
    ),
    "MRPC": _Columns(("#1 String", "#2 String"), "Quality"),
}


def load_glue(path, task):
    """Reads the training and the development set of a task of GLUE.

    | task | texts | label 0 | label 1 |
    |---|---|---|---|
    | CoLA | sentences | unacceptable | acceptable |
    | SST-2 | phrases (training), sentences | negative | positive |
    | RTE | pairs | entailment | not_entailment |
    | MRPC | pairs | not_equivalent | equivalent |

    The test sets of GLUE have no labels; what is usually reported is the
    result on the development set.

    Args:
        path: String or path-like: the folder with `train.tsv` and `dev.tsv`,
            or `train.tsv.gz` and `dev.tsv.gz`, or the folder that contains it
            under the name of the task.
        task: String, "CoLA", "SST-2", "RTE" or "MRPC", in any case, with or
            without hyphen.

    Returns:
        `(train_texts, train_labels), (dev_texts, dev_labels)`. Texts are lists
        of strings, pairs tuples of two such lists; labels are int32 arrays.

    Raises:
        ValueError: The task is unknown, or a file is not as GLUE has it.

    Example:

    ```python
    train, dev = load_glue("glue_data", "RTE")
    (premises, hypotheses), labels = train
    ```

    References:
        - [Wang et al., 2018](https://arxiv.org/abs/1804.07461)
    """
    path, task = Path(path), _find_task(task)
    columns = _TASKS[task]
    splits = []
    for name in ("train.tsv", "dev.tsv"):
        file, *_ = find_files((path / task, path), name)
        texts, labels, _ = load_csv(
            file,
            columns.text,
            columns.label,
            header=columns.header,
            class_names=columns.classes,
        )
        splits.append((texts, labels))
    return tuple(splits)


def _find_task(wanted):
    for task in _TASKS:
        if _plain(task) == _plain(wanted):
            return task
    raise ValueError(
        f"task must be one of {', '.join(_TASKS)}. Received: {wanted!r}. "
        "Other tables can be read with load_csv."
    )


def _plain(name):
    return str(name).lower().replace("-", "")
