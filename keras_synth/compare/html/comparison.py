"""What the sections of a report read: a comparison's results."""

from typing import NamedTuple

from keras_synth.compare.differences import differences
from keras_synth.compare.groups import best, groups, labels
from keras_synth.compare.html import charts
from keras_synth.compare.html.markup import element


class Comparison(NamedTuple):
    """Results of equal settings and data, as sections read them.

    Attributes:
        rows: List of results.
        task: `Task` of all of them.
        grouped: What `groups` returned for them.
        labels: Dictionary: keys of `grouped` -> what tells it from others.
        compared: What `differences` returned for them.
    """

    rows: list
    task: object
    grouped: dict
    labels: dict
    compared: dict

    @classmethod
    def of(cls, rows, task):
        """The comparison that results make."""
        grouped = groups(rows)
        named, compared = labels(grouped), differences(grouped)
        return cls(rows, task, grouped, named, compared)

    @property
    def settings(self):
        """Those of all runs."""
        return self.rows[0]["key"]["settings"]

    @property
    def score(self):
        """`Score` of the test."""
        return self.task.objective.score

    def values(self, name):
        """The different values of a key, in their order."""
        return [*dict.fromkeys(row["key"][name] for row in self.rows)]

    def lines(self, count):
        """At most so many lines for a chart, the best on validation."""
        chosen = best(self.grouped, count, self.task.objective.epoch_score)
        series = {}  # of a variant with so many heads: on any backend the same
        for variant, heads, _ in chosen:
            series.setdefault((variant, heads), len(series))
        backends = self.values("backend")
        return [
            charts.Line(
                self.labels[key],
                group,
                series[key[:2]],
                backends.index(key[2]),
            )
            for key, group in chosen.items()
        ]

    def note(self, count, what):
        """Says that not all lines of the table are shown, if so."""
        if len(self.grouped) <= count:
            return ""
        return element(
            "p",
            f"{what} shows {count} of {len(self.grouped):,} lines of the "
            "table, those with the best scores on validation.",
            class_="note",
        )
