"""Language models: perplexity per word, bits per byte."""

import dataclasses

import keras
import numpy as np
import pytest
from backend import slow_but_on
from command_line import BACKEND, kill_after_an_epoch, rows, run_here

from keras_synth import datasets, models
from keras_synth.callbacks import EpochCheckpoint
from keras_synth.compare import grid, jobs, prepare, tasks, worker
from keras_synth.compare.objectives import (
    ByteLanguageModel,
    Prepared,
    SubwordLanguageModel,
    WordLanguageModel,
)

# Processes, files and arrays: generation itself has tests of its own.
pytestmark = slow_but_on("torch")

SMALL = (
    "--task text --epochs 2 --num-layers 1 --num-heads 2 --hidden-dim 32 "
    "--sequence-length 24 --batch-size 16 --learning-rate 3e-3 --variants R+V"
).split()
TINY = WordLanguageModel.Settings(
    "wikitext2", sequence_length=8, num_layers=1, hidden_dim=16, batch_size=16
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder, what was said, and the arguments that say what to do."""
    folder = tmp_path_factory.mktemp("text")
    texts, _ = datasets.generated_reviews(120)
    (folder / "text.txt").write_text("\n".join(texts))
    arguments = [*SMALL, "--data", str(folder / "text.txt")]
    status, out, err = run_here(folder, *arguments)
    assert status == 0, err
    return folder, out, arguments


def test_bits_per_byte_fall(whole):
    folder, out, _ = whole
    assert "text: test bits per byte after the last epoch, lower is" in out
    (row,) = rows(folder)
    scores = row["validation_scores"]
    assert len(scores) == 2
    assert 0.5 < scores[-1] < scores[0] < 8
    assert scores == pytest.approx(
        [x / np.log(2) for x in row["validation_losses"]]
    )
    assert row["score"] == pytest.approx(row["test_loss"] / np.log(2))
    assert "| test bits per byte |" in (folder / "results.md").read_text()


@pytest.mark.slow
def test_a_killed_run_goes_on(whole, tmp_path):
    folder = tmp_path / "killed"
    kill_after_an_epoch(folder, *whole[2])
    status, _, err = run_here(folder, *whole[2], "--resume")
    assert status == 0, err
    (resumed,), (expected,) = rows(folder), rows(whole[0])
    for name in ("losses", "validation_scores", "score"):
        np.testing.assert_allclose(resumed[name], expected[name], atol=5e-4)


def words(tmp_path, text="a b a c b a d . "):
    """A folder like that of WikiText-2."""
    for split, times in (("train", 40), ("valid", 1), ("test", 3)):
        more = "" if split == "train" else "unseen"
        path = tmp_path / f"wiki.{split}.tokens"
        path.write_text(" " + text * times + more + "\n")
    return tasks.Source(str(tmp_path))


def test_words_are_numbered_by_frequency(tmp_path):
    settings = WordLanguageModel.Settings("wikitext2", sequence_length=8)
    path = prepare.prepare(settings, words(tmp_path), tmp_path / "data")
    found = prepare.read(path)
    assert found.notes["vocabulary"] == "a b . c d <eos> <unk>".split()
    assert found.notes["vocabulary_size"] == 7
    assert found.train["tokens"][:5].tolist() == [0, 1, 0, 3, 1]
    assert found.test["tokens"][-2:].tolist() == [6, 5]
    # Fewer are the first ones: `examples` windows.
    some = WordLanguageModel.Settings(
        "wikitext2", sequence_length=8, examples=5
    )
    splits = tasks.load("wikitext2", words(tmp_path), some)
    assert [len(split) for split in splits] == [40, 10, 26]
    many = WordLanguageModel.Settings(
        "wikitext2", sequence_length=8, examples=99
    )
    with pytest.raises(ValueError, match="at most 40"):
        tasks.load("wikitext2", words(tmp_path), many)


def test_perplexity_counts_every_word_once():
    """The last windows are short, the last batch is not full."""
    objective = WordLanguageModel()
    ids = np.random.default_rng(0).integers(11, size=(2, 400)).astype("int32")
    prepared = Prepared(
        *({"tokens": x} for x in (ids[0], ids[1], ids[1, :300])),
        {"vocabulary_size": 11},
    )
    wanted = grid.Run("R", 2, 0, BACKEND)
    model = objective.build(TINY, wanted, prepared, 10)
    rng = np.random.default_rng(1)
    model.set_weights(
        [w + rng.normal(scale=0.3, size=w.shape) for w in model.get_weights()]
    )
    *_, test = objective.batches(TINY, 0, prepared)
    scorer = objective.scorer(model)
    found = objective.evaluate(scorer, test)["score"]

    total = 0.0
    for features, labels, weight in (test[i] for i in range(len(test))):
        logits = keras.ops.convert_to_numpy(
            model.predict_on_batch(features)
        ).astype("float64")
        logits -= np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        chosen = np.take_along_axis(logits, labels[..., None], -1)[..., 0]
        total -= (chosen * weight).sum()
    assert found == pytest.approx(np.exp(total / 299), rel=1e-4)


def test_half_precision_is_computed_with_and_weights_stay_whole(
    tmp_path, monkeypatch
):
    settings = dataclasses.replace(
        TINY, epochs=1, dtype_policy="mixed_bfloat16"
    )
    made, fit = [], EpochCheckpoint.fit

    def fit_and_keep(self, model, *arguments, **options):
        made.append(model)
        fit(self, model, *arguments, **options)

    monkeypatch.setattr(EpochCheckpoint, "fit", fit_and_keep)
    data = prepare.prepare(settings, words(tmp_path), tmp_path / "data")
    found = jobs.Jobs(settings, data, "0", tmp_path)
    wanted = grid.Run("R+V", 2, 0, BACKEND)
    result = worker.train(
        settings, wanted, found.paths(wanted), lambda event: None
    )
    (model,) = made
    layers = [x for x in model.backbone.layers if x.variables]
    assert {x.dtype_policy.name for x in layers} == {"mixed_bfloat16"}
    assert {w.dtype for w in model.trainable_variables} == {"float32"}
    assert 1 < result["score"] < 10
    assert settings.digest() != dataclasses.replace(TINY, epochs=1).digest()


def test_generated_sentences_are_texts_of_so_many_lines():
    settings = ByteLanguageModel.Settings("sentences", examples=7)
    texts = tasks.load("sentences", tasks.Source(), settings)
    lines = [text.decode().split("\n") for text in texts]
    assert [*map(len, lines)] == [7, 500, 500]
    sources, _ = datasets.generated_translations(1_007)
    assert lines[2] + lines[1] + lines[0] == sources


def test_any_text_gives_its_last_fifth_to_validate_and_to_test_on(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("é" * 80 + "a" * 10 + "ü" * 10)
    source = tasks.Source(str(path))
    parts = tasks.load("text", source, ByteLanguageModel.Settings("text"))
    assert [*parts] == [b"\xc3\xa9" * 80, b"a" * 10, b"\xc3\xbc" * 10]
    both = tasks.Source(str(path), str(path))
    train, validation, test = tasks.load(
        "text", both, ByteLanguageModel.Settings("text")
    )
    assert train + validation == test == path.read_bytes()
    assert validation == b"\xc3\xbc" * 10


def test_nats_of_pieces_are_shared_among_words(tmp_path):
    """All of a text is in its pieces, and its words are those of the files."""
    settings = SubwordLanguageModel.Settings(
        "wikitext2_subwords",
        sequence_length=8,
        batch_size=2,
        vocabulary_size=270,
    )
    source = words(tmp_path, "many words of many pieces ")
    read = prepare.read(prepare.prepare(settings, source, tmp_path / "data"))
    assert read.test["words"] == 5 * 3 + 2  # "unseen" and the end of the line
    tokenizer = models.SynthesizerBytePairTokenizer(
        {token: i for i, token in enumerate(read.notes["vocabulary"])},
        read.notes["merges"],
    )
    text = "many words of many pieces " * 3 + "unseen\n"
    assert tokenizer.detokenize(read.test["tokens"]) == text
    objective = SubwordLanguageModel()
    *_, test = objective.batches(settings, 0, read)
    pieces = len(read.test["tokens"])
    total = 0.5 * (pieces - 1)  # half a nat for each that is predicted
    assert objective.score_of(0.5, test) == pytest.approx(np.exp(total / 17))
