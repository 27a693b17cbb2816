"""The sections of a report, for a reader who was not there.

Each is a function of a `Comparison` that returns HTML, and a name here.
"""

from keras_synth.compare.html.sections.backends import agreement
from keras_synth.compare.html.sections.curves import costs, learning
from keras_synth.compare.html.sections.differences import chance
from keras_synth.compare.html.sections.provenance import repetition
from keras_synth.compare.html.sections.scores import results

SECTIONS = (results, chance, learning, costs, agreement, repetition)
