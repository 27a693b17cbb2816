"""Models for longer and for shorter sequences."""

import keras
import numpy as np
import pytest
import small_tasks
from assertions import close, equal
from backend import numpy
from noise import noisy

from keras_synth import fold, layers, models, synthesizers
from keras_synth.surgery import graft, lengthen, shorten, synthesize

SIZES = {**small_tasks.SIZES, "vocabulary_size": 30}
N, M = 6, 10
SYNTHESIZERS = [
    "R+V",
    "FR(rank=3)",
    "D",
    "D(hidden_dim=None)",
    "Fix",
    "heads(V=1, R=1)",
    synthesizers.get("R+V", num_heads=2, key_dim=4, max_length=N),
]


def backbone(synthesizer="R", length=N, **changes):
    options = {**SIZES, "max_sequence_length": length, **changes}
    made = models.SynthesizerBackbone(**options, synthesizer=synthesizer)
    return noisy(made, 1.0)


def attention(synthesizer):
    x = keras.Input((None, 4))
    layer = layers.SyntheticAttention(
        1, 4, synthesizer=synthesizer, max_length=N
    )
    return keras.Model(x, layer(x))


def inputs(length):
    ids = np.random.default_rng(1).integers(1, 30, (2, length))
    return {"token_ids": ids, "padding_mask": np.ones_like(ids)}


def weight(model, name):
    return numpy(next(w for w in model.weights if w.path.endswith(name)))


@pytest.mark.parametrize("synthesizer", SYNTHESIZERS)
def test_tiled_models_and_shortened_ones_are_as_before(synthesizer):
    model, given = backbone(synthesizer), inputs(N)
    longer = lengthen(model, M)
    assert longer.max_sequence_length == M
    expected = numpy(model(given))
    close(longer(given), expected)
    assert longer(inputs(M)).shape == (2, M, 8)
    back = shorten(longer, N)
    close(back(given), expected)
    equal(back.weights, model.weights)


def test_parts_stay_frozen():
    model = backbone("R+V", num_layers=2)
    model.token_embedding.trainable = False
    model.stack.blocks[0].trainable = False
    model.stack.blocks[1].attention.trainable = False
    for other in (lengthen(model, M), shorten(model, 4)):
        assert len(other.trainable_weights) == len(model.trainable_weights)
        assert not other.stack.blocks[1].attention.trainable


def test_tables_are_tiled_and_interpolated():
    model = backbone("R")
    table, positions = (
        weight(model, "/R"),
        weight(model, "position_embedding/embeddings"),
    )
    i = np.arange(M) % N
    longer = lengthen(model, M, "tile")
    equal(weight(longer, "/R"), table[:, i][:, :, i])
    longer = lengthen(model, 2 * N - 1, how="interpolate")
    found = weight(longer, "position_embedding/embeddings")
    close(found[::2], positions, atol=1e-6)
    close(found[1::2], (positions[1:] + positions[:-1]) / 2, atol=1e-6)
    found = weight(longer, "/R")
    close(found[:, ::2, ::2], table, atol=1e-6)
    close(found[:, 1, 3], table[:, :2, 1:3].mean((1, 2)), atol=1e-6)


@pytest.mark.parametrize("how", ["tile", "interpolate"])
def test_factors_give_the_table_that_their_product_would_become(how):
    factors = backbone("FR(rank=3)")
    rows, columns = weight(factors, "/R1"), weight(factors, "/R2")
    table = backbone("R")
    next(w for w in table.weights if w.name == "R").assign(
        rows @ columns.swapaxes(1, 2)
    )
    factors, table = (lengthen(model, M, how) for model in (factors, table))
    close(
        weight(factors, "/R1") @ weight(factors, "/R2").swapaxes(1, 2),
        weight(table, "/R"),
    )


def test_sources_and_targets():
    options = {**SIZES, "max_sequence_length": N, "max_decoder_length": M}
    model = models.SynthesizerSeq2SeqBackbone(
        **options, synthesizer="R", positions="learned"
    )
    longer = lengthen(model, M)
    assert longer.max_sequence_length == longer.max_decoder_length == M
    shorter = shorten(model, N)
    assert shorter.max_sequence_length == shorter.max_decoder_length == N
    ids = np.ones((2, N), "int32")
    given = {
        f"{side}_{name}": ids
        for side in ("encoder", "decoder")
        for name in ("token_ids", "padding_mask")
    }
    for other in (longer, shorter):
        close(other(given), model(given))


def test_they_fold_save_and_carry_on(tmp_path):
    model = graft(backbone("V"), "R+V")
    student = synthesize(backbone("V"), inputs(N), heads=1)
    for other in (model, student):
        longer = lengthen(other, M, "interpolate")
        given = inputs(M)
        expected = numpy(longer(given))
        close(fold(longer)(given), expected)
        longer.save(tmp_path / "longer.keras")
        again = keras.saving.load_model(tmp_path / "longer.keras")
        close(again(given), expected)


@pytest.mark.parametrize("pretrained", [False, True])
def test_tasks_keep_their_heads_and_learning_rates(pretrained):
    original = backbone("R")
    original.pretrained = pretrained
    task = models.SynthesizerTextClassifier(original, 3)
    for other in (lengthen(task, M), shorten(task, 4)):
        close(other(inputs(4)), task(inputs(4)))
        assert other.backbone.pretrained == pretrained
        rates = [float(x.optimizer.learning_rate) for x in (task, other)]
        assert rates[0] == rates[1]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda: lengthen(backbone(), M, "guess"), "'tile', 'interp.*'guess'"),
        (lambda: lengthen(backbone(), N), f"{N} tokens.*max_length={N}"),
        (lambda: shorten(backbone(), M), f"shorter.*max_length={M}"),
        (lambda: shorten(backbone(), 0), "positive.*0"),
        (lambda: lengthen(fold(backbone()), M), "before `fold`"),
        (lambda: lengthen(backbone("linformer(rank=2)"), M), "self_attention"),
        (lambda: lengthen(backbone("FD"), M), "position_axes.*/B"),
        (lambda: lengthen(attention("FD"), M), "position_axes.*/B"),
        (lambda: lengthen(keras.Sequential(), M), "no weights yet"),
    ],
)
def test_what_has_no_other_length_is_refused(change, match):
    with pytest.raises(ValueError, match=f"(?s){match}"):
        change()


@pytest.mark.parametrize(
    ("change", "lengths"), [(lengthen, (8, 12)), (shorten, (6, 8))]
)
def test_layers_that_are_as_long_already_stay_so(change, lengths):
    inputs = [keras.Input((None, 4)) for _ in range(2)]
    outputs = [
        layers.SyntheticAttention(1, 4, synthesizer="R", max_length=length)(x)
        for x, length in zip(inputs, (6, 12), strict=True)
    ]
    changed = change(keras.Model(inputs, outputs), 8)
    found = [w.shape[1] for w in changed.weights if w.name == "R"]
    assert found == [*lengths]
