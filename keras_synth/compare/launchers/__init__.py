"""Where runs take place: each launcher is a class, and a line here."""

from keras_synth.compare.launchers.launcher import Launcher
from keras_synth.compare.launchers.local import Local
from keras_synth.compare.launchers.ray_cluster import Ray

__all__ = ["LAUNCHERS", "Launcher", "Local", "Ray"]

# By their names on the command line.
LAUNCHERS = {
    "local": Local,
    "ray": Ray,
}
