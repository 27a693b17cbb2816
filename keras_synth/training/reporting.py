"""Tables and pictures of scores."""

import contextlib
import io
import pathlib

import numpy as np

from keras_synth._system.files import writing

# The columns of `print_multiplications`, in the order of the computation.
PARTS = (
    "projections",
    "logits",
    "softmax",
    "mixing",
    "output",
    "feed-forward",
    "output layer",
)


def print_table(title, headings, rows, caption=None):
    """Prints figures as a table; names of variants are folded, not cut.

    Args:
        title: String.
        headings: List of strings; that of the first column is of names.
        rows: List of lists of strings, as many each.
        caption: Optional string, below.
    """
    from rich.console import Console

    Console().print(score_table(title, headings, rows, caption))


def score_table(title, headings, rows, caption=None):
    """The `rich` table that `print_table` prints."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=title, caption=caption, box=None, padding=(0, 1, 0, 0))
    for index, name in enumerate(headings):
        table.add_column(
            name,
            justify="right" if index else "left",
            no_wrap=bool(index),
            overflow="fold",
        )
    for row in rows:
        table.add_row(*map(escape, row))  # brackets are no markup
    return table


def print_multiplications(counts):
    """Prints multiplications of models by parts, and as multiples.

    Args:
        counts: Dictionary: name of a model -> what
            `keras_synth.analysis.multiplications` returns of it. Sums are
            compared with the first one's.

    Example:

    ```python
    from keras_synth.training.reporting import print_multiplications

    blocks = {
        name: keras_synth.layers.SynthesizerEncoder(
            256, num_heads=4, synthesizer=name, max_length=512
        )
        for name in ("V", "R")
    }
    for block in blocks.values():
        block.build((None, None, 64))
    print_multiplications(
        {
            name: keras_synth.analysis.multiplications(block, 512, 512)
            for name, block in blocks.items()
        }
    )
    ```
    """
    parts = [x for x in PARTS if any(x in count for count in counts.values())]
    totals = {name: sum(count.values()) for name, count in counts.items()}
    first = next(iter(totals.values()))
    rows = [
        [
            name,
            *(f"{count.get(part, 0) / 1e6:,.1f}" for part in parts),
            f"{totals[name] / 1e6:,.1f}",
            f"{totals[name] / first:.2f}",
        ]
        for name, count in counts.items()
    ]
    print_table(
        "multiplications of a sample, in millions",
        ["model", *parts, "sum", f"/ {next(iter(counts))}"],
        rows,
    )


def print_attention(statistics, window=2):
    """Prints what attention layers do in numbers, means over their heads.

    Args:
        statistics: Dictionary: name of a model -> what
            `keras_synth.analysis.attention_statistics` returns of it.
        window: Integer: how many tokens away is near.

    Example:

    ```python
    from keras_synth.training.reporting import print_attention

    inputs = keras.Input((8, 16))
    block = keras_synth.layers.SynthesizerEncoder(
        32, num_heads=2, synthesizer="R", max_length=8
    )
    model = keras.Model(inputs, block(inputs))
    found = keras_synth.analysis.attention_statistics(
        model, np.ones((2, 8, 16))
    )
    print_attention({"R": found})
    ```
    """
    headings = ["entropy", "distance", f"|i-j|<={window}", "first", "input"]
    rows = [
        [
            f"{name}: {layer}",
            *(f"{x:.2f}" for x in own.summary(window).values()),
        ]
        for name, layers in statistics.items()
        for layer, own in layers.items()
    ]
    caption = (
        "entropy in nats; mean distance in tokens; shares of the weight "
        f"at most {window} tokens away and on the first token; input dependence"
    )
    print_table("Attention", ["layer", *headings], rows, caption)


@contextlib.contextmanager
def picture(path, panels=1, size=(7, 4), label="epochs"):
    """Draws a picture; the file is there when it is complete.

    Args:
        path: String or path-like, a `.png` file.
        panels: Integer, how many panels lie side by side.
        size: Width and height in inches.
        label: String, what runs along the horizontal axes; epochs are
            integers.

    Yields:
        Matplotlib's axes, an array of them for several panels.

    Example:

    ```python
    from keras_synth.training.reporting import picture

    with picture("curves.png") as axes:
        axes.plot([2.3, 1.7, 1.4])
    ```
    """
    from matplotlib import figure  # imported last: commands start faster

    made = figure.Figure(figsize=size, layout="constrained")
    axes = made.subplots(1, panels)
    yield axes
    for each in made.axes:
        each.set_xlabel(label)
        if label == "epochs":
            each.xaxis.get_major_locator().set_params(integer=True)
        each.grid(alpha=0.3)
    save_figure(path, made)


def save_figure(path, figure):
    """Writes a figure of Matplotlib; the file is there when it is complete.

    Args:
        path: String or path-like, a `.png` file; folders are made.
        figure: `matplotlib.figure.Figure`, such as `keras_synth.analysis`
            draws.

    Example:

    ```python
    from keras_synth.training.reporting import save_figure

    weights = {"encoder": np.full((1, 2, 8, 8), 1 / 8)}
    save_figure("heads.png", keras_synth.analysis.plot_heads(weights))
    ```
    """
    drawn = io.BytesIO()  # the writer of PNG files hides why a disk refuses
    figure.savefig(drawn, format=pathlib.Path(path).suffix[1:], dpi=150)
    with writing(path, "wb") as file:
        file.write(drawn.getbuffer())


def draw_histories(path, histories, metric="loss"):
    """Draws a figure of each epoch: lines of validation, dots of training.

    Args:
        path: String or path-like, a `.png` file.
        histories: Dictionary: what each curve is called -> a dictionary of
            lists, such as `keras_synth.callbacks.EpochLog` fills.
        metric: String, what is drawn; of validation, `"val_"` before it.

    Example:

    ```python
    from keras_synth.training.reporting import draw_histories

    history = {"loss": [2.3, 1.7], "val_loss": [2.2, 1.9]}
    draw_histories("curves.png", {"R+V": history})
    ```
    """
    with picture(path) as axes:
        for index, (label, history) in enumerate(histories.items()):
            for name, style in ((f"val_{metric}", "o-"), (metric, ":")):
                if values := history.get(name):
                    epochs = range(1, len(values) + 1)
                    axes.plot(epochs, values, f"C{index}{style}", label=label)
                    label = None  # once is enough
        axes.set_ylabel(f"{metric} (line: validation, dots: training)")
        axes.legend()


def smoothed(losses, window, epochs):
    """Losses of steps, averaged, as a curve over epochs.

    Args:
        losses: List of floats, one for each step.
        window: Integer, the steps that a point is the mean of.
        epochs: Integer, how many the steps make.

    Returns:
        `(places, means)`, two arrays of equal length.
    """
    window = min(window, len(losses))
    means = np.convolve(losses, np.full(window, 1 / window), "valid")
    places = (np.arange(len(means)) + window) * epochs / len(losses)
    return places, means
