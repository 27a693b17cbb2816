"""Learning curves, and scores against what they cost."""

from keras_synth.compare.html import charts
from keras_synth.compare.html.markup import element
from keras_synth.compare.html.sections.parts import figures, section

CURVES = charts.SERIES  # lines in a chart


def learning(comparison):
    """Learning curves over one another."""
    lines, epochs = (
        comparison.lines(CURVES),
        comparison.task.objective.epoch_score,
    )
    text = "Lines are means over the seeds, bands the range of the seeds."
    if max(map(len, comparison.grouped.values())) == 1:
        text = "Each line is one run."
    return section(
        "How the runs learn, epoch by epoch",
        figures(
            comparison,
            [
                charts.training_losses(lines),
                charts.validation_scores(lines, epochs),
            ],
            lines,
        ),
        element("p", text, class_="note"),
        comparison.note(CURVES, "Each chart"),
    )


def costs(comparison):
    """Score against speed and memory."""
    lines = comparison.lines(CURVES)
    made = charts.costs(lines, comparison.score)
    if not made:
        return ""
    text = (
        "Upper right is good and fast, upper left good and small. Compare "
        "speed and memory of runs on the same machine and backend alone."
    )
    if not comparison.score.higher_is_better:
        text = text.replace("Upper", "Lower").replace("upper", "lower")
    return section(
        "What a score costs in time and memory",
        figures(comparison, made, lines),
        element("p", text, class_="note"),
        comparison.note(CURVES, "Each chart"),
    )
