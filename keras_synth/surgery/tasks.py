"""Tasks around backbones that are taken over."""

from collections.abc import Callable
from typing import Any

import keras
import keras_hub
from keras import ops

from keras_synth import models
from keras_synth.models.tasks.folding import shortened

# What KerasHub's tasks become here. Their output layer is the embedding.
_TASKS = {
    keras_hub.models.GPT2CausalLM: models.SynthesizerCausalLM,
    keras_hub.models.T5Seq2SeqLM: models.SynthesizerSeq2SeqLM,
}
_OWN = (
    models.SynthesizerTextClassifier,
    models.SynthesizerTokenClassifier,
    models.SynthesizerCausalLM,
    models.SynthesizerMaskedLM,
    models.SynthesizerSeq2SeqLM,
)


def with_backbone(
    model: Any, change: Callable[[Any], Any], max_length: int | None = None
) -> Any:
    """Returns what `change` makes of a backbone; of a task's, a task of it.

    The task has the same preprocessor and, beside the backbone, the same
    weights. It is compiled as a new one is.

    Args:
        model: Backbone or task.
        change: Function from a backbone to a new one.
        max_length: Integer, to which the preprocessor is to cut, if it is
            longer.

    Raises:
        ValueError: If it is a task with other layers than tasks here have.
    """
    if not isinstance(model, keras_hub.models.Task):
        return change(model)
    preprocessor = model.preprocessor
    if preprocessor is not None and max_length is not None:
        preprocessor = shortened(preprocessor, max_length)
    if type(model) in _TASKS:
        made = _TASKS[type(model)](
            change(model.backbone), preprocessor=preprocessor
        )
        if hasattr(model, "sampler"):
            made.compile(sampler=model.sampler)
        return made
    if type(model) not in _OWN:
        known = ", ".join(cls.__name__ for cls in (*_TASKS, *_OWN))
        raise ValueError(
            f"{type(model).__name__} has layers of its own beside the "
            "backbone. Pass its backbone, `model.backbone`, and put a task "
            "such as SynthesizerTextClassifier around the result, to be "
            f"trained. Tasks that can be taken as they are: {known}. "
            f"Received: model of {type(model).__name__}"
        )
    config = model.get_config()
    made = type(model).from_config(
        {
            **config,
            "backbone": change(model.backbone),
            "preprocessor": preprocessor,
        }
    )
    for old, new in zip(_beside(model), _beside(made), strict=True):
        new.assign(ops.convert_to_numpy(old))
    return made


def backbone_of(model: Any) -> Any:
    """Returns the backbone of a task; others as they are."""
    return model.backbone if isinstance(model, keras_hub.models.Task) else model


def _beside(task: keras.Model) -> list[Any]:
    """The weights of a task that are not of its backbone."""
    inside = {id(weight) for weight in task.backbone.weights}
    return [weight for weight in task.weights if id(weight) not in inside]
