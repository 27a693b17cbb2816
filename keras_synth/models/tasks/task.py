"""`TaskMixin`: what all tasks have in common."""

from typing import Any

import keras

from keras_synth.models.data.reading import DataMixin
from keras_synth.models.saving.presets import TaskSavingMixin
from keras_synth.types import Identifier


class TaskMixin(TaskSavingMixin, DataMixin):
    """Saving, data and the default optimizer of a task.

    Mixed into a KerasHub task before its base class.
    """

    def compile(
        self,
        optimizer: Identifier = "auto",
        loss: Identifier = "auto",
        **kwargs: Any,
    ) -> None:
        """Configures training, as the `compile` of KerasHub's tasks.

        Args:
            optimizer: By default `AdamW(1e-3)`, which suits training from
                scratch.
            loss: By default sparse categorical cross-entropy.
            **kwargs: `weighted_metrics`; of tasks that write, `sampler`, a
                name or a `keras_hub.samplers.Sampler`; and what
                `keras.Model.compile` takes.
        """
        if optimizer == "auto":
            optimizer = keras.optimizers.AdamW(1e-3)
        super().compile(optimizer=optimizer, loss=loss, **kwargs)
        self._check_compiled()

    def _check_compiled(self):
        """Raises if something else than Keras knows is wrong."""
