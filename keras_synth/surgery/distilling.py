"""`distill`: train a student to reproduce its teacher's outputs."""

import math
from typing import Any

import keras
from keras import ops

from keras_synth._backend.execution import without_gradients
from keras_synth._backend.internals import kept_variables
from keras_synth.surgery.observing import are_texts, read_texts
from keras_synth.surgery.states import ModelStates


def distill(
    student: Any,
    teacher: Any,
    hidden_states: float = 1.0,
    outputs: float = 1.0,
    loss: str = "squared_error",
    dropout: bool = False,
) -> keras.Model:
    """Returns a model whose `fit` trains a student towards its teacher.

    The loss of a batch is `w_h mean_l D(h_l, h'_l) + w_o D(y, y')`. `h_l` are
    the outputs of the l-th layer with attention, and y the outputs of the
    model; a prime marks the teacher's. D is `sum |h - h'|^2 / sum |h'|^2`, or
    the mean of `1 - cos(h, h')`. It counts only real tokens, according to
    inputs whose names end with `"padding_mask"`, or to Keras' masks.

    `fit` takes inputs without labels. It trains the student in place, so you
    can use or save the student afterwards; the returned model cannot be saved.
    To continue after an interruption, use `keras.callbacks.BackupAndRestore`.
    The teacher does not change. To match hidden states before outputs, call
    `distill` twice, with `outputs=0.0` and then with `hidden_states=0.0`.

    Args:
        student: Functional model, backbone or task, such as a result of
            `synthesize`.
        teacher: Another model with the same inputs, such as the argument of
            `synthesize`. Outputs with the same names are compared.
        hidden_states: Float, `w_h`; 0 to ignore hidden states. Otherwise both
            models need the same number of layers with attention, of the same
            width.
        outputs: Float, `w_o`; 0 to ignore outputs.
        loss: `"squared_error"` or `"cosine"`, D.
        dropout: Whether the student uses dropout in training. The teacher
            never does.

    Returns:
        `keras.Model` to `compile`, without a loss, and to `fit`. Its logs are
        `loss`, `hidden_states_loss` and `outputs_loss`.

    Raises:
        ValueError: If a model is not functional; if both are the same object,
            or differ in width, vocabulary, number of attention layers or
            inputs; or if an argument has another value.

    Example:

    >>> import keras_hub
    >>> bert = keras_hub.models.BertBackbone(
    ...     100, num_layers=2, num_heads=2, hidden_dim=16,
    ...     intermediate_dim=32, max_sequence_length=24)
    >>> data = {name: np.ones((8, 12), "int32")
    ...         for name in ("token_ids", "segment_ids", "padding_mask")}
    >>> student = keras_synth.surgery.synthesize(bert, data, heads=0.5)
    >>> training = keras_synth.surgery.distill(student, bert)
    >>> training.compile(keras.optimizers.AdamW(1e-4))
    >>> history = training.fit(data, epochs=2, verbose=0).history
    >>> sorted(history)
    ['hidden_states_loss', 'loss', 'outputs_loss']

    References:
        - [Jiao et al., 2020](https://arxiv.org/abs/1909.10351), hidden states
          before outputs.
        - [Bick et al., 2024](https://arxiv.org/abs/2408.10189), the same
          for models with replaced attention.
    """
    if loss not in _DISTANCES:
        raise ValueError(
            f"`loss` must be one of {list(_DISTANCES)}. Received: loss={loss!r}"
        )
    shares = _checked_shares(hidden_states=hidden_states, outputs=outputs)
    _check_models(student, teacher)
    within = "hidden_states" in shares
    states = ModelStates(student, within), ModelStates(teacher, within)
    _check_pair(*states, shares)
    return Distillation(*states, shares, _DISTANCES[loss], dropout)


class Distillation(keras.Model):
    """The model that `distill` returns.

    `keras.distillation.Distiller` would run the student twice a step, count
    padding, and freeze the teacher for good.

    Call arguments:
        inputs: The inputs of both models.

    Returns:
        Dictionary of lists of the student's tensors to compare:
        `"hidden_states"`, `(B, T, d)`, and `"outputs"`.
    """

    def __init__(self, student, teacher, shares, distance, dropout):
        super().__init__()
        self.student, self.teacher = student.model, teacher.model
        # Not tracked as layers of this model: their parts are.
        self._of_student, self._of_teacher = student, teacher
        self._shares, self._distance, self._dropout = shares, distance, dropout
        self._trackers = [keras.metrics.Mean(f"{x}_loss") for x in shares]

    # The teacher is not trained, even if its own weights are trainable.
    @property
    def trainable_variables(self) -> list[Any]:
        return self.student.trainable_variables if self.trainable else []

    @property
    def non_trainable_variables(self) -> list[Any]:
        return _without(self.variables, self.trainable_variables)

    @property
    def non_trainable_weights(self) -> list[Any]:
        return _without(self.weights, self.trainable_variables)

    trainable_weights = trainable_variables

    def compile(self, optimizer: Any = "adamw", **kwargs: Any) -> None:
        """Configures `fit`.

        Args:
            optimizer: See `keras.Model.compile`.
            **kwargs: Its other arguments, except losses and metrics, which
                need labels.
        """
        wrong = {"loss", "loss_weights", "metrics", "weighted_metrics"}
        wrong &= {name for name, value in kwargs.items() if value is not None}
        if wrong:
            raise ValueError(
                "Distillation has its own loss, chosen by `distill`, and no "
                "labels for other losses or for metrics. "
                f"Received: {', '.join(sorted(wrong))}"
            )
        super().compile(optimizer=optimizer, **kwargs)

    def fit(self, x: Any = None, y: Any = None, **kwargs: Any) -> Any:
        """Trains the student.

        Args:
            x: See `keras.Model.fit`: inputs, or batches of them. If the student
                has a preprocessor, also texts: a list, array or pandas column,
                or a tuple of two for pairs.
            y: None, because there are no labels.
            **kwargs: Other arguments of `keras.Model.fit`, except
                `sample_weight`. For weights, pass a dataset of
                `(inputs, None, weights)`.
        """
        _check_no_labels(y, kwargs.get("sample_weight"))
        validation = kwargs.get("validation_data")
        if are_texts(validation) and not isinstance(validation, tuple):
            kwargs["validation_data"] = (self._inputs(validation),)
        elif isinstance(validation, tuple):
            first, *others = validation
            kwargs["validation_data"] = (self._inputs(first), *others)
        optimizer = getattr(self, "optimizer", None)  # before `compile`
        if optimizer is not None and not optimizer.built:
            # As Keras does later, but its variables are then kept, too.
            optimizer.build(self.trainable_variables)
        with kept_variables(self):
            return super().fit(self._inputs(x), **kwargs)

    def evaluate(self, x: Any = None, y: Any = None, **kwargs: Any) -> Any:
        """Returns the distance to the teacher; x as in `fit`."""
        _check_no_labels(y, kwargs.get("sample_weight"))
        with kept_variables(self):
            return super().evaluate(self._inputs(x), **kwargs)

    def _inputs(self, x):
        """Texts as inputs of the student; other data unchanged."""
        preprocessor = getattr(self.student, "preprocessor", None)
        if preprocessor is None or not are_texts(x):
            return x
        return read_texts(preprocessor, x)

    def call(self, inputs, training=None):
        states = self._of_student(inputs, bool(training) and self._dropout)
        return {name: [x for x, _ in states[name]] for name in self._shares}

    def compute_loss(
        self, x=None, y=None, y_pred=None, sample_weight=None, training=True
    ):
        """Returns the distance of the student from its teacher."""
        _check_no_labels(y)
        with without_gradients():
            known = self._of_teacher(x, training=False)
        total = 0.0
        for tracker, (name, share) in zip(
            self._trackers, self._shares.items(), strict=True
        ):
            found = self._mean_distance(
                y_pred[name], known[name], sample_weight
            )
            tracker.update_state(found)
            total = total + share * found
        return total

    def _mean_distance(self, found, known, sample_weight):
        """Mean D of tensors `(B, ..., d)` and pairs of a tensor and a mask."""
        each = []
        for ours, (theirs, mask) in zip(found, known, strict=True):
            theirs = ops.stop_gradient(ops.cast(theirs, "float32"))
            weight = ops.ones_like(theirs[..., 0])
            if mask is not None:
                weight *= ops.cast(mask, "float32")
            if sample_weight is not None:
                shape = (-1, *[1] * (len(theirs.shape) - 2))
                own = ops.cast(sample_weight, "float32")
                weight = weight * ops.reshape(own, shape)
            ours = ops.cast(ours, "float32")
            each.append(self._distance(ours, theirs, weight))
        return ops.mean(ops.stack(each))


# --- distances ----------------------------------------------------------------


def _squared_error(found, known, mask):
    """The squared error relative to the squared norm."""
    mask = mask[..., None]
    missing = ops.sum(mask * ops.square(found - known))
    return missing / ops.maximum(ops.sum(mask * ops.square(known)), 1e-9)


def _cosine(found, known, mask):
    product = ops.sum(_unit(found) * _unit(known), axis=-1)
    return ops.sum(mask * (1 - product)) / ops.maximum(ops.sum(mask), 1e-9)


def _unit(x):
    # Inside the root, so that a vector of zeros has a gradient.
    squares = ops.sum(ops.square(x), axis=-1, keepdims=True)
    return x / ops.sqrt(squares + 1e-12)


_DISTANCES = {"squared_error": _squared_error, "cosine": _cosine}


# --- checks -------------------------------------------------------------------


def _checked_shares(**shares):
    for name, share in shares.items():
        if not isinstance(share, (int, float)) or not 0 <= share < math.inf:
            raise ValueError(
                f"`{name}` must be a finite number, 0 or more. "
                f"Received: {name}={share!r}"
            )
    wanted = {name: share for name, share in shares.items() if share}
    if not wanted:
        raise ValueError(
            "Nothing is left to be learned. Set `hidden_states` or `outputs` "
            "above 0. Received: both 0"
        )
    return wanted


def _check_no_labels(y, sample_weight=None):
    if sample_weight is not None:
        raise ValueError(
            "Keras ignores `sample_weight` without labels. Pass a dataset of "
            "(inputs, None, weights). Received: sample_weight"
        )
    if y is not None:
        raise ValueError(
            "The teacher's outputs take the place of labels. Pass only the "
            "inputs to `fit`. Received: labels, or batches with labels"
        )


def _check_models(student, teacher):
    for name, model in (("student", student), ("teacher", teacher)):
        if not isinstance(model, keras.Model) or not hasattr(model, "inputs"):
            raise ValueError(
                f"The {name} must be a functional or Sequential model, a "
                "backbone or a task. "
                f"Received: {type(model).__name__}"
            )
    if student is teacher:
        raise ValueError(
            "Student and teacher must be two models. "
            f"Received: {student.name!r} as both"
        )


def _check_pair(student, teacher, shares):
    """Raises unless the states of both models can be compared."""
    models = student.model, teacher.model
    sizes = [
        (f"`{name}`", *(getattr(model, name, None) for model in models))
        for name in ("hidden_dim", "vocabulary_size")
    ]
    layers = (
        "number of attention layers, unless `hidden_states=0.0` leaves them out"
    )
    sizes.append((layers, len(student.layers), len(teacher.layers)))
    names = [name for name in teacher.widths if name in student.widths]
    for states in (student, teacher) if names else ():
        states.widths = {name: states.widths[name] for name in names}
    if "outputs" in shares:
        both = student.widths, teacher.widths
        sizes.append(("outputs, by name and width", *both))
    for name, own, other in sizes:
        if own != other and None not in (own, other):
            raise ValueError(
                f"Student and teacher must have the same {name}. "
                f"Received: {own} and {other}"
            )


def _without(variables, others):
    left_out = {id(x) for x in others}
    return [x for x in variables if id(x) not in left_out]
