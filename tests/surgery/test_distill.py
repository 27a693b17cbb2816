"""A student is trained to do as its teacher does."""

import keras
import keras_hub
import numpy as np
import pytest
import small_models
import small_tasks
from assertions import close, equal
from backend import numpy
from noise import noisy

from keras_synth import models
from keras_synth.surgery import distill, graft

SIZES = {**small_tasks.SIZES, "vocabulary_size": 30, "num_layers": 2}
SIZES |= {"intermediate_dim": 12, "max_sequence_length": 9}
B, T = 8, 6


def bert(**changes):
    return noisy(keras_hub.models.BertBackbone(**{**SIZES, **changes}), 0.3)


def inputs():
    lengths = np.array([6, 2, 3, 4, 5, 6, 1, 3])[:, None]
    return {
        "token_ids": np.random.default_rng(0).integers(1, 30, (B, T)),
        "segment_ids": np.zeros((B, T), "int32"),
        "padding_mask": (np.arange(T) < lengths).astype("int32"),
    }


def ours(**changes):
    sizes = {**SIZES, "num_segments": 2, **changes}
    return noisy(
        models.SynthesizerBackbone(
            **sizes, synthesizer="heads(V=1, R=1)", normalize_first=False
        ),
        0.3,
    )


def pair(**changes):
    return ours(**changes), bert(**changes)


def compiled(student, teacher, rate=0.0, **options):
    training = distill(student, teacher, **options)
    training.compile(keras.optimizers.AdamW(rate, weight_decay=0.0))
    return training


def loss_of(training, given, **options):
    return training.evaluate(given, verbose=0, return_dict=True, **options)


def expected(student, teacher, given, distance):
    """By block, on NumPy: the distances of hidden states and of outputs."""
    real = given["padding_mask"].astype(bool)
    states = [
        keras.Model(
            model.input, [block.output for block in blocks]
        ).predict_on_batch({name: given[name] for name in model.input})
        for model, blocks in (
            (student, student.stack.blocks),
            (teacher, teacher.transformer_layers),
        )
    ]
    found = [distance(x[real], y[real]) for x, y in zip(*states, strict=True)]
    # The output of post-norm models is that of their last block.
    return {"hidden_states": np.mean(found), "outputs": found[-1]}


def squared_error(x, y):
    return ((x - y) ** 2).sum() / (y**2).sum()


def cosine(x, y):
    norms = np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1)
    return np.mean(1 - (x * y).sum(-1) / norms)


@pytest.mark.parametrize("distance", [squared_error, cosine])
def test_losses_are_distances_of_real_tokens(distance):
    student, teacher = pair()
    given = inputs()
    training = compiled(
        student, teacher, hidden_states=0.5, outputs=2.0, loss=distance.__name__
    )
    found = loss_of(training, given)
    known = expected(student, teacher, given, distance)
    for name, value in known.items():
        close(found[f"{name}_loss"], value, atol=0, rtol=1e-4)
    total = 0.5 * known["hidden_states"] + 2.0 * known["outputs"]
    close(found["loss"], total, atol=0, rtol=1e-4)


def test_weights_of_samples_count():
    given = inputs()
    training = compiled(*pair())
    some = {name: x[:3] for name, x in given.items()}
    weighted = [(given, None, (np.arange(B) < 3).astype("float32"))]
    found = [
        loss_of(training, batches)["loss"]
        for batches in ((x for x in weighted), some, given)
    ]
    close(found[0], found[1], atol=0, rtol=1e-4)
    assert not np.isclose(found[0], found[2], rtol=1e-3)


def test_the_student_alone_is_trained(tmp_path):
    student, teacher = pair()
    given = inputs()
    known = [numpy(w) for w in teacher.weights]
    table = next(w for w in student.weights if w.name == "R")
    before = numpy(table)
    training = compiled(student, teacher, rate=0.01)
    losses = training.fit(given, epochs=8, batch_size=4, verbose=0).history
    for name in ("loss", "hidden_states_loss", "outputs_loss"):
        assert losses[name][-1] < 0.6 * losses[name][0]
    assert np.abs(numpy(table) - before).max() > 1e-3
    equal(teacher.weights, known)
    assert len(teacher.trainable_weights) == len(teacher.weights)
    student.save(tmp_path / "student.keras")
    alone = keras.saving.load_model(tmp_path / "student.keras")
    close(alone.predict_on_batch(given), student.predict_on_batch(given))
    # As `keras.callbacks.BackupAndRestore` does.
    training.save_weights(tmp_path / "training.weights.h5")
    again = compiled(*pair())
    again.fit(given, verbose=0)
    again.load_weights(tmp_path / "training.weights.h5")
    close(
        loss_of(again, given)["loss"],
        loss_of(training, given)["loss"],
        atol=0,
        rtol=1e-4,
    )


def test_what_is_frozen_is_not_trained():
    student, teacher = pair()
    student.token_embedding.trainable = False
    training = distill(student, teacher)
    assert len(training.trainable_weights) == len(student.weights) - 1
    frozen = [*teacher.weights, *student.token_embedding.weights]
    assert {w.path for w in frozen} == {
        w.path for w in training.non_trainable_weights
    }
    training.trainable = False
    assert not training.trainable_weights


def test_dropout_is_a_choice():
    student, teacher = pair(dropout=0.5)
    given = inputs()
    steady = loss_of(compiled(student, teacher), given)["loss"]
    for dropout in (False, True):
        training = compiled(student, teacher, dropout=dropout)
        found = training.fit(given, batch_size=B, verbose=0).history["loss"]
        assert np.isclose(found[0], steady, rtol=1e-4) != dropout


@pytest.mark.parametrize(
    ("teacher", "given"),
    [
        (lambda: keras_hub.models.GPT2Backbone(**SIZES), inputs()),
        # Keras' attention beside layers of this package.
        (
            lambda: small_models.MADE["grouped heads"](),
            small_models.inputs_of("grouped heads"),
        ),
    ],
)
def test_a_graft_has_nothing_to_learn_at_the_start(teacher, given):
    teacher = noisy(teacher(), 0.3)
    found = loss_of(compiled(graft(teacher, "R+V"), teacher), given)
    assert found["loss"] < 1e-8


def test_encoders_with_decoders():
    sizes = {
        name: SIZES[name] for name in SIZES if name != "max_sequence_length"
    }
    teacher = noisy(keras_hub.models.T5Backbone(**sizes), 0.3)
    student = models.SynthesizerSeq2SeqBackbone(
        **SIZES, synthesizer="R", max_decoder_length=4
    )
    ids = inputs()["token_ids"]
    given = {
        "encoder_token_ids": ids,
        "encoder_padding_mask": inputs()["padding_mask"],
        "decoder_token_ids": ids[:, :4],
        "decoder_padding_mask": np.ones((B, 4), "int32"),
    }
    training = compiled(student, teacher)
    found = loss_of(training, given)
    outputs = [model.predict_on_batch(given) for model in (student, teacher)]
    distances = []
    for side in ("encoder", "decoder"):
        real = given[f"{side}_padding_mask"].astype(bool)
        x, y = (output[f"{side}_sequence_output"][real] for output in outputs)
        distances.append(squared_error(x, y))
    close(found["outputs_loss"], np.mean(distances), atol=0, rtol=1e-4)
    assert len(training.predict_on_batch(given)["hidden_states"]) == 4
    given["decoder_token_ids"] = ids
    with pytest.raises(ValueError, match=r"(?s)6 tokens.*max_decoder_length=4"):
        training(given)


@pytest.mark.parametrize(
    ("student", "teacher", "options", "match"),
    [
        (ours, bert, {"loss": "kl"}, "'squared_error', 'cosine'.*'kl'"),
        (ours, bert, {"outputs": -1.0}, "`outputs` must be.*-1.0"),
        (
            ours,
            bert,
            {"hidden_states": 0.0, "outputs": 0},
            "Nothing is left to be learned",
        ),
        (lambda: keras.Sequential(), bert, {}, "student must.*Sequential"),
        (
            ours,
            lambda: keras_hub.models.BertTextClassifier(bert(), 2),
            {},
            "same outputs.*sequence_output.*output",
        ),
        (ours, lambda: ours(hidden_dim=12), {}, "`hidden_dim`.*8 and 12"),
        (
            ours,
            lambda: keras_hub.models.FNetBackbone(30, 2, 8, 8),
            {},
            "hidden_states=0.0.*No self-attention",
        ),
        (
            ours,
            lambda: bert(vocabulary_size=31),
            {},
            "`vocabulary_size`.*30 and 31",
        ),
        (
            ours,
            lambda: bert(num_layers=1),
            {},
            "layers.*hidden_states=0.0.*2.*1",
        ),
        (
            ours,
            lambda: models.SynthesizerSeq2SeqBackbone(**SIZES, synthesizer="R"),
            {},
            "attention layers.*2 and 4",
        ),
    ],
)
def test_what_cannot_be_distilled_is_refused(student, teacher, options, match):
    with pytest.raises(ValueError, match=f"(?s){match}"):
        distill(student(), teacher(), **options)


def test_a_model_is_not_its_own_teacher():
    model = ours()
    with pytest.raises(ValueError, match="as both"):
        distill(model, model)


def test_other_numbers_of_blocks_match_outputs():
    training = compiled(ours(num_layers=1), bert(), hidden_states=0.0)
    assert sorted(loss_of(training, inputs())) == ["loss", "outputs_loss"]


def test_labels_losses_and_other_inputs_are_refused():
    training = distill(ours(), bert())
    with pytest.raises(ValueError, match="call `compile"):
        training.fit(inputs(), verbose=0)
    with pytest.raises(ValueError, match=r"(?s)its own loss.*: loss"):
        training.compile(loss="mse")
    training.compile()
    given = inputs()
    with pytest.raises(ValueError, match="take the place of labels"):
        training.fit(given, np.ones(B), verbose=0)
    for way in (training.fit, training.evaluate):
        with pytest.raises(ValueError, match="take the place of labels"):
            way((x for x in [(given, np.ones(B))]), verbose=0)
        way(given, verbose=0)  # all weights are still there
        with pytest.raises(ValueError, match=r"\(inputs, None, weights\)"):
            way(given, sample_weight=np.ones(B), verbose=0)
    del given["segment_ids"]
    with pytest.raises(ValueError, match=r'Missing data.*"segment_ids"'):
        training(given)
    long = {name: np.ones((1, 10), "int32") for name in inputs()}
    with pytest.raises(ValueError, match="10 tokens are longer"):
        training(long)


@pytest.mark.each_backend
def test_a_t5_teaches_its_graft():
    teacher = keras_hub.models.T5Backbone(50, 1, 2, 16, 32)
    student = graft(teacher, "V", max_length=8)
    ids = np.ones((2, 4), "int32")
    given = {
        f"{side}_{name}": ids
        for side in ("encoder", "decoder")
        for name in ("token_ids", "padding_mask")
    }
    before = numpy(teacher(given)["decoder_sequence_output"])
    compiled(student, teacher, rate=0.1).fit(given, verbose=0)
    close(teacher(given)["decoder_sequence_output"], before)


def encoder(as_list):
    """Inputs in a list, or attention that gets the mask by another name."""
    ids = keras.Input((T,), dtype="int32", name="token_ids")
    mask = keras.Input((T,), dtype="bool", name="padding_mask")
    x = keras.layers.Embedding(30, 8)(ids)
    attention = keras.layers.MultiHeadAttention(2, 4)
    y = attention(x, x, attention_mask=mask[:, None])
    named = {"token_ids": ids, "padding_mask": mask}
    inputs = [ids, mask] if as_list else named
    return keras.Model(inputs, keras.layers.LayerNormalization()(x + y))


@pytest.mark.parametrize("as_list", [True, False])
def test_padding_counts_nowhere_however_a_model_is_called(as_list):
    teacher = encoder(as_list)
    training = compiled(noisy(graft(teacher, "V"), 0.3), teacher)
    first = {k: inputs()[k] for k in ("token_ids", "padding_mask")}
    padded = np.where(first["padding_mask"], first["token_ids"], 7)
    losses = []
    for ids in (first["token_ids"], padded):
        given = {**first, "token_ids": ids}
        given = [*given.values()] if as_list else given
        losses.append([*loss_of(training, given).values()])
    close(losses[0], losses[1], atol=0, rtol=1e-5)


@pytest.mark.each_backend
def test_padding_counts_nowhere_if_keras_masks_it():
    ids = keras.Input((T,), dtype="int32")
    x = keras.layers.Embedding(30, 8, mask_zero=True)(ids)
    x = keras.layers.MultiHeadAttention(2, 4)(x, x)
    teacher = keras.Model(ids, [x, x[:, 0]])
    given = inputs()["token_ids"] * inputs()["padding_mask"]
    found = loss_of(compiled(graft(teacher, "V"), teacher), given)
    close(found["hidden_states_loss"], 0.0)
    close(found["outputs_loss"], 0.0)


def test_outputs_can_be_nested():
    x = keras.Input((T, 8))
    y = keras.layers.MultiHeadAttention(2, 4)(x, x)
    teacher = keras.Model(x, {"a": [y], "b": x})
    training = compiled(graft(teacher, "V"), teacher)
    found = loss_of(training, np.ones((2, T, 8), "float32"))
    assert found["loss"] < 1e-5
