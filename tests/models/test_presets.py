"""Files and presets of every task: loaded models, and files on the disk."""

import errno
import os
import pathlib
import shutil
import warnings

import huggingface_hub
import kagglehub
import keras
import keras_hub
import pytest
from assertions import close, equal
from backend import numpy
from every_task import TASKS, TEXTS, examples, task
from small_tasks import CLASSES, KINDS, SIZES, WORDS
from small_tasks import examples as numbered

from keras_synth import models

KIND_WITHOUT_BASE = "token_classifier"  # in KerasHub
SKIPPED = "Skipping variable loading for optimizer"


def assert_same_weights(model, other):
    assert type(model) is type(other)
    equal(model.get_weights(), other.get_weights())


def answers(model, kind):
    """The results of its additional methods."""
    if kind in ("causal_lm", "seq2seq_lm"):
        model.compile(sampler="greedy")
        return model.generate(["the film", "a plot"], 8)
    if kind == "masked_lm":
        (guesses,) = model.fill_mask("a [MASK]", top_k=2)
        return [token for token, _ in guesses]
    return model.tag([["good"]]) if kind == "token_classifier" else None


@pytest.mark.once
def test_a_preset_of_another_classifier_is_an_error(tmp_path):
    task("classifier").save_to_preset(tmp_path / "preset")
    other = models.SynthesizerTokenClassifier
    message = "of a SynthesizerTokenC.*Load it by.*: SynthesizerTextClass"
    with pytest.raises(ValueError, match=message):
        other.from_preset(tmp_path / "preset")
    made = other.from_preset(tmp_path / "preset", num_classes=3)
    assert made.preprocessor.sequence_length == 8
    with pytest.raises(ValueError, match="causal=True"):
        models.SynthesizerCausalLM.from_preset(tmp_path / "preset")


@pytest.mark.filterwarnings(f"error:{SKIPPED}")
@pytest.mark.parametrize("kind", TASKS)
def test_files_and_presets_keep_the_arguments_of_a_task(kind, tmp_path):
    model, x = task(kind), examples(kind)[0]
    model.save(tmp_path / "model.keras")
    model.save_to_preset(tmp_path / "preset")
    preset = str(tmp_path / "preset")
    loaded = [
        keras.saving.load_model(tmp_path / "model.keras"),
        type(model).from_preset(tmp_path / "preset"),
    ]
    parts = [type(model.preprocessor)]
    if kind != KIND_WITHOUT_BASE:
        base = getattr(keras_hub.models, CLASSES[kind])
        loaded.append(base.from_preset(preset))
        parts.append(getattr(keras_hub.models, f"{CLASSES[kind]}Preprocessor"))
    for cls in parts:
        assert type(cls.from_preset(preset)) is type(model.preprocessor)
    for cls in (keras_hub.models.Backbone, type(model.backbone)):
        assert_same_weights(model.backbone, cls.from_preset(preset))
    for other in loaded:
        assert_same_weights(model, other)
        close(
            other.predict(x, verbose=0), model.predict(x, verbose=0), atol=1e-6
        )
        assert answers(other, kind) == answers(model, kind)
        assert other.class_names == model.class_names
        for name, value in model.preprocessor.get_config().items():
            if not name.startswith(("name", "tokenizer")):
                assert other.preprocessor.get_config()[name] == value
    if hasattr(model, "num_classes"):
        more = type(model).from_preset(preset, num_classes=5, class_names=None)
        assert more.predict(x, verbose=0).shape[-1] == 5


@pytest.mark.parametrize("translates", [False, True])
def test_tokenizers_load_from_presets_of_all_backbones(translates, tmp_path):
    own = models.SynthesizerBackbone
    own = models.SynthesizerSeq2SeqBackbone if translates else own
    own(vocabulary_size=280, synthesizer="V", **SIZES).save_to_preset(tmp_path)
    hub = keras_hub.tokenizers
    for tokenizer, base in (
        (
            models.SynthesizerTokenizer.from_texts(WORDS, 60),
            hub.WordPieceTokenizer,
        ),
        (
            models.SynthesizerBytePairTokenizer.from_texts(WORDS, 280),
            hub.BytePairTokenizer,
        ),
        (
            models.SynthesizerWordTokenizer.from_texts(WORDS),
            hub.WordPieceTokenizer,
        ),
        (models.SynthesizerByteTokenizer(lowercase=True), hub.ByteTokenizer),
    ):
        tokenizer.save_to_preset(tmp_path)
        for kind in (hub.Tokenizer, base, type(tokenizer)):
            loaded = kind.from_preset(str(tmp_path))
            assert type(loaded) is type(tokenizer)
            assert loaded(WORDS) == tokenizer(WORDS)
        shutil.rmtree(tmp_path / "assets", ignore_errors=True)


def in_mixed_precision():
    body = models.SynthesizerBackbone(
        9, **SIZES, synthesizer="R", dtype="mixed_bfloat16"
    )
    return models.SynthesizerTextClassifier(body, 2)


def quantized():
    model = task("classifier")
    model.quantize("int8")
    return model


@pytest.mark.parametrize(
    "make",
    [
        lambda: task("classifier"),
        in_mixed_precision,
        quantized,
        lambda: quantized().backbone,
    ],
)
def test_presets_load_from_hubs(make, tmp_path, monkeypatch):
    model = make()
    model.save_to_preset(tmp_path)
    asked = []

    def download(handle, path):
        asked.append(handle)
        if not (tmp_path / path).exists():
            raise FileNotFoundError(path)
        return str(tmp_path / path)

    monkeypatch.setattr(kagglehub, "model_download", download)
    monkeypatch.setattr(
        huggingface_hub,
        "hf_hub_download",
        lambda repo_id, filename: download(repo_id, filename),
    )
    for handle in ("hf://user/reviews", "kaggle://user/reviews/keras/small"):
        loaded = type(model).from_preset(handle)
        assert_same_weights(model, loaded)
        assert {*asked} == {handle.split("://")[1]}
        asked.clear()


# Optimizers


def learning_rate(model):
    return float(numpy(model.optimizer.learning_rate))


@pytest.mark.parametrize("kind", KINDS)
def test_presets_of_trained_models_contain_no_optimizer(kind, tmp_path):
    model = task(kind)
    assert learning_rate(model) == pytest.approx(1e-3)
    model.fit(*numbered(kind, TEXTS), verbose=0)
    model.save_to_preset(tmp_path)
    with warnings.catch_warnings():  # Keras warns of variables that it skips
        warnings.filterwarnings("error", message=SKIPPED)
        loaded = type(model).from_preset(tmp_path)
    assert_same_weights(model, loaded)
    assert model.optimizer.iterations == 1  # training can go on
    # The default of weights that have been loaded.
    assert learning_rate(loaded) == pytest.approx(5e-5)
    fresh = type(model).from_preset(tmp_path, load_weights=False)
    assert learning_rate(fresh) == pytest.approx(1e-3)
    backbone = type(model.backbone).from_preset(tmp_path)
    if kind == "causal_lm":
        other = models.SynthesizerCausalLM(backbone)
        assert learning_rate(other) == pytest.approx(5e-5)


def trained(kind):
    model = task(kind)
    sampler = {} if kind == "classifier" else {"sampler": "beam"}
    model.compile(
        keras.optimizers.Adam(
            keras.optimizers.schedules.CosineDecay(1e-2, 30, warmup_steps=3)
        ),
        keras.losses.SparseCategoricalCrossentropy(True, ignore_class=0),
        **sampler,
    )
    model.fit(*numbered(kind, TEXTS), batch_size=8, verbose=0)
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_optimizer_loss_and_sampler_come_back_with_a_file(kind, tmp_path):
    model = trained(kind)
    model.save(tmp_path / "model.keras")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=SKIPPED)
        loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.loss.get_config() == model.loss.get_config()
    assert loaded.get_compile_config() == model.get_compile_config()
    assert int(numpy(loaded.optimizer.iterations)) == 1
    states = loaded.optimizer.variables, model.optimizer.variables
    equal(*states)
    if kind != "classifier":
        assert type(loaded.sampler) is type(model.sampler)
    loaded.fit(*numbered(kind, TEXTS), batch_size=8, verbose=0)
    assert int(numpy(loaded.optimizer.iterations)) == 2


@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")
@pytest.mark.parametrize("given", ["auto", False])
def test_a_file_does_not_make_other_backends_compile(given, tmp_path):
    """The meaning of "auto" depends on the backend."""
    model = task("classifier")
    model.compile(jit_compile=given)
    assert model.get_compile_config()["jit_compile"] == given
    model.save(tmp_path / "model.h5")  # does not change the config
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.get_compile_config()["jit_compile"] == given


@pytest.mark.parametrize("kind", KINDS)
def test_a_clone_of_a_compiled_task_is_a_compiled_model(kind):
    model = task(kind)
    clone = keras.models.clone_model(model)
    assert clone.compiled
    assert clone.output_shape == model.output_shape


def test_a_preset_in_mixed_precision_loads_in_the_present_one(tmp_path):
    model = in_mixed_precision()
    model.save_to_preset(tmp_path)
    for dtype in (None, "mixed_float16"):
        loaded = type(model).from_preset(tmp_path, dtype=dtype)
        assert loaded.backbone.dtype_policy.name == (dtype or "float32")
        equal(loaded.get_weights(), model.get_weights())


# The disk


def test_a_preset_replaces_an_older_one_as_a_whole(tmp_path):
    folder = tmp_path / "preset"
    task("classifier").save_to_preset(folder)
    (folder / "README.md").write_text("A card.")
    (folder / "notes").mkdir()
    (folder / "notes" / "a.txt").write_text("Mine.")
    backbone = task("causal_lm").backbone
    backbone.save_to_preset(folder)
    assert {path.name for path in folder.iterdir()} == {
        "README.md",
        "config.json",
        "metadata.json",
        "model.weights.h5",
        "notes",
    }
    assert (folder / "notes" / "a.txt").read_text() == "Mine."
    assert [path.name for path in tmp_path.iterdir()] == ["preset"]


@pytest.mark.parametrize("way", ["load", "save", "save the rest"])
def test_a_preset_comes_back_after_a_kill_between_two_renames(way, tmp_path):
    folder, aside = tmp_path / "preset", tmp_path / ".preset.old"
    model = in_mixed_precision()
    model.save_to_preset(folder)
    (folder / "README.md").write_text("A card.")
    os.rename(folder, aside)
    if way == "load":
        assert_same_weights(model, type(model).from_preset(folder))
    else:
        if way == "save the rest":  # killed after the second rename
            shutil.copytree(aside, folder)
            (folder / "README.md").unlink()
        model.save_to_preset(folder)
    assert (folder / "README.md").read_text() == "A card."
    assert [path.name for path in tmp_path.iterdir()] == ["preset"]


def test_the_working_directory_is_not_replaced(tmp_path, monkeypatch):
    (tmp_path / "inside").mkdir()
    monkeypatch.chdir(tmp_path / "inside")
    for folder in (".", tmp_path):
        with pytest.raises(ValueError, match="a separate folder"):
            task("classifier").save_to_preset(folder)


def failing(write):
    """Writes a part of a file, then fails like a full disk."""

    def fail(self, path, *args, **kwargs):
        write(self, path, *args, **kwargs)
        raise OSError(errno.ENOSPC, "No space left on device")

    return fail


def contents(folder):
    files = pathlib.Path(folder).rglob("*")
    return {f: f.read_bytes() for f in files if f.is_file()}


@pytest.mark.parametrize(
    "name", ["m.keras", "m.weights.h5", "m.weights.json", "m"]
)
def test_a_write_error_leaves_the_earlier_file_whole(
    name, tmp_path, monkeypatch
):
    way = {"keras": "save", "m": "save_to_preset"}.get(
        name.split(".")[-1], "save_weights"
    )
    model, path = task("classifier"), tmp_path / name
    options = {"max_shard_size": 1e-5} if name.endswith("json") else {}
    getattr(model, way)(path, **options)
    before = contents(tmp_path)
    for weight in model.trainable_weights:
        weight.assign(weight + 1)
    base = keras_hub.models.TextClassifier
    monkeypatch.setattr(base, way, failing(getattr(base, way)))
    with pytest.raises(OSError, match="No space left"):
        getattr(model, way)(path, **options)
    assert contents(tmp_path) == before
    monkeypatch.undo()
    link = tmp_path / f"link_to_{name}"
    link.symlink_to(path)
    getattr(model, way)(link, **options)
    assert link.is_symlink()
    assert contents(tmp_path) != before


def test_saving_over_a_file_can_be_declined(tmp_path, monkeypatch):
    model = task("classifier")
    model.save(tmp_path / "m.keras")
    monkeypatch.setattr("builtins.input", lambda *_: "n")
    before = contents(tmp_path)
    model.save(tmp_path / "m.keras", overwrite=False)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("kind", ["classifier", "token_classifier"])
def test_a_task_that_is_not_compiled_is_saved_and_loaded(kind, tmp_path):
    model = task(kind)
    made = type(model)(model.backbone, 2, compile=False)
    made.save_to_preset(tmp_path)
    loaded = type(model).from_preset(tmp_path, preprocessor=None, compile=False)
    assert not loaded.compiled
    assert_same_weights(made, loaded)


def test_a_map_of_policies_stays_that_of_the_backbone(tmp_path):
    policies = keras.dtype_policies.DTypePolicyMap(
        "mixed_bfloat16",
        {".*token_embedding.*": keras.dtype_policies.DTypePolicy("float32")},
    )
    body = models.SynthesizerBackbone(
        9, **SIZES, synthesizer="R", dtype=policies
    )
    model = models.SynthesizerTextClassifier(body, 2)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras").backbone
    assert loaded.token_embedding.compute_dtype == "float32"
    assert loaded.stack.blocks[0].compute_dtype == "bfloat16"
