"""Pre-training without labels, and starting from what it left."""

import json
import shutil

import numpy as np
import pytest
from backend import slow_but_on
from command_line import BACKEND, rows, run_here

from keras_synth import datasets, models
from keras_synth.commands import compare
from keras_synth.compare import grid, initial, options, tasks
from keras_synth.compare.objectives import Prepared, recipes
from keras_synth.pretraining import SpanCorruption

# Workers are processes of one backend, whichever it is.
pytestmark = slow_but_on("torch")

SIZE = "--num-layers 1 --num-heads 2 --hidden-dim 16 --sequence-length 24"
SMALL = (
    f"{SIZE} --epochs 3 --steps-per-epoch 20 --batch-size 16 "
    "--vocabulary-size 400 --learning-rate 1e-2 --variants R+V"
).split()


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A folder with two texts."""
    folder = tmp_path_factory.mktemp("texts")
    for seed in (0, 1):
        texts, _ = datasets.generated_reviews(300, seed=seed)
        (folder / f"{seed}.txt").write_text("\n\n".join(texts))
    return folder


@pytest.fixture(scope="module")
def pretrained(text, tmp_path_factory):
    """The output of a grid that pre-trained R+V."""
    folder = tmp_path_factory.mktemp("mlm")
    status, out, err = run_here(
        folder, "--task", "mlm", "--data", str(text), *SMALL
    )
    assert status == 0, err
    assert "mlm: test log-perplexity after the last epoch, lower is" in out
    return folder


def test_masked_tokens_are_learned_and_a_preset_is_kept(pretrained):
    (row,) = rows(pretrained)
    assert len(row["losses"]) == 3 * 20
    scores = row["validation_scores"]
    assert 1 < scores[-1] < scores[0] < np.log(400)
    assert row["score"] == pytest.approx(row["test_loss"])
    preset = pretrained / "presets" / row["preset"]
    card = (preset / "README.md").read_text()
    assert f"| log-perplexity, test | {row['score']:.3f} |" in card
    masked_lm = models.SynthesizerMaskedLM.from_preset(preset)
    assert masked_lm.backbone.get_config()["hidden_dim"] == 16
    (guesses,) = masked_lm.fill_mask("a very [MASK] film", top_k=2)
    assert len(guesses) == 2


def reviews(folder, *arguments):
    return run_here(
        folder,
        *"--task reviews --examples 64 --epochs 1 --lengths --variants".split(),
        *("R+V", "--num-heads", "2", "--sequence-length", "24", *arguments),
    )


def test_a_classifier_starts_from_it(pretrained, tmp_path):
    status, _, err = reviews(tmp_path, "--init", str(pretrained))
    assert status == 0, err
    (row,) = rows(tmp_path)
    assert row["key"]["settings"]["hidden_dim"] == 16
    data = next((tmp_path / "data").glob("*.txt")).read_text().split("\n")
    own = next((pretrained / "data").glob("*.txt")).read_text().split("\n")
    assert data == own


def write_reviews(folder):
    texts, labels = datasets.generated_reviews(60)
    for number, (text, label) in enumerate(zip(texts, labels, strict=True)):
        split = "train" if number < 50 else "test"
        name = f"pos/{number}_9.txt" if label else f"neg/{number}_2.txt"
        path = folder / split / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return "\n".join(texts[:50]), "byte_text", ("--data", str(folder))


def write_expressions(folder):
    expressions, _ = datasets.generated_listops(300)
    return "\n".join(expressions), "listops", ("--examples", "64")


@pytest.mark.parametrize(
    ("pretraining", "write", "least"),
    [("mlm_words", write_expressions, 20), ("mlm_bytes", write_reviews, 256)],
)
def test_classifiers_of_words_and_bytes_start_from_their_own(
    pretraining, write, least, tmp_path
):
    text, task, given = write(tmp_path / "data")
    (tmp_path / "text.txt").write_text(text)
    output = tmp_path / "pretrained"
    status, _, err = run_here(
        output,
        *("--task", pretraining, "--data", str(tmp_path / "text.txt")),
        *f"{SIZE} --epochs 2 --steps-per-epoch 10 --variants R".split(),
        *"--batch-size 8 --learning-rate 1e-2".split(),
    )
    assert status == 0, err
    (row,) = rows(output)
    first, last = row["validation_scores"]
    assert last < first < np.log(2 * least)
    (preset,) = initial.presets(output)
    masked_lm = models.SynthesizerMaskedLM.from_preset(preset)
    assert masked_lm.backbone.vocabulary_size <= least
    (guesses,) = masked_lm.fill_mask(
        f"{text[:7]}{masked_lm.preprocessor.tokenizer.mask_token}", top_k=2
    )
    assert len(guesses) == 2
    status, _, err = run_here(
        tmp_path / "tuned",
        *("--task", task, *given, "--init", str(output)),
        *"--epochs 1 --variants R --num-heads 2 --sequence-length 24".split(),
        *"--lengths --batch-size 8".split(),
    )
    assert status == 0, err
    assert rows(tmp_path / "tuned")[0]["key"]["settings"]["hidden_dim"] == 16


def settings(init, task="reviews", **values):
    values = {"sequence_length": 24, "lengths": (), **values, "init": str(init)}
    return tasks.TASKS[task].settings(task, **values)


RUN = grid.Run("R+V", 2, 0, BACKEND)


@pytest.mark.parametrize("weights", ["pretrained", "random"])
def test_its_weights_are_those_of_the_preset_or_random(pretrained, weights):
    wanted = settings(pretrained, init_weights=weights, dropout=0.3)
    made = recipes.backbone(
        models.SynthesizerBackbone, wanted, RUN, None, num_segments=2
    )
    source = models.SynthesizerBackbone.from_preset(
        initial.find(wanted, RUN), dropout=0.3
    )
    assert (made.dropout, made.num_segments) == (0.3, 2)
    own = {w.path: np.array(w) for w in made.weights}
    same = [np.array_equal(own[w.path], np.array(w)) for w in source.weights]
    if weights == "pretrained":
        assert all(same)
    else:  # biases start at zero
        assert not all(same)


def test_a_preset_of_something_else_is_refused(pretrained, tmp_path):
    (preset,) = initial.presets(pretrained)
    of_grid, alone = settings(pretrained), settings(preset)
    other = RUN._replace(variant="V")
    with pytest.raises(ValueError, match=r"0 presets in .* of V with 2 heads"):
        initial.find(of_grid, other)
    with pytest.raises(
        ValueError, match=r"class_name 'Mixture.*', not 'DotProductSynthesizer'"
    ):
        initial.find(alone, other)
    with pytest.raises(ValueError, match=r"with num_heads 2, not 4"):
        initial.find(alone, RUN._replace(num_heads=4))
    with pytest.raises(ValueError, match=r"with long_inputs 'error', not 'ti"):
        initial.find(
            alone, RUN._replace(variant="random(long_inputs='tile') + V")
        )
    assert initial.find(alone, RUN) == preset
    with pytest.raises(ValueError, match="starts from a SynthesizerSeq2Seq"):
        initial.check(alone, [RUN], "SynthesizerSeq2SeqBackbone")
    with pytest.raises(ValueError, match="at most 24, the longest input"):
        initial.check(
            settings(preset, sequence_length=25), [RUN], "SynthesizerBackbone"
        )
    given = compare.parser().parse_args(
        ["--init", str(preset), "--hidden-dim", "32"]
    )
    with pytest.raises(ValueError, match=r"--hidden-dim 16\. Leave the option"):
        options.settings_of(given)


def test_presets_of_different_vocabularies_are_refused(pretrained, tmp_path):
    (preset,) = initial.presets(pretrained)
    for name in ("R+V-2-0-jax-1", "V-2-0-jax-2"):
        shutil.copytree(preset, tmp_path / "presets" / name)
    runs = [RUN, RUN._replace(variant="V")]
    initial.check(settings(tmp_path), runs, "SynthesizerBackbone")
    path = tmp_path / "presets/V-2-0-jax-2/assets/tokenizer/vocabulary.txt"
    path.write_text(path.read_text() + "more\n")
    with pytest.raises(ValueError, match="must have the same vocabulary"):
        initial.check(settings(tmp_path), runs, "SynthesizerBackbone")


def test_a_folder_without_weights_is_refused_and_left_alone(
    pretrained, tmp_path
):
    (preset,) = initial.presets(pretrained)
    bare, output = tmp_path / "bare", tmp_path / "output"
    shutil.copytree(preset, bare)
    (bare / "model.weights.h5").unlink()
    with pytest.raises(ValueError, match=r"has no model\.weights\.h5"):
        initial.presets(bare)
    with pytest.raises(ValueError, match="--init must name a preset"):
        initial.presets(tmp_path / "nothing")
    status, _, err = reviews(output, "--init", str(bare))
    assert status == 2
    assert err.count("\n") == 1
    assert not output.exists()


def test_weights_without_a_preset_mean_nothing():
    given = compare.parser().parse_args(["--init-weights", "random"])
    with pytest.raises(ValueError, match="Pass both"):
        options.settings_of(given)


@pytest.mark.slow
def test_span_corruption_is_learned_and_translations_start_from_it(
    text, tmp_path
):
    first, second = tmp_path / "first", tmp_path / "second"
    status, _, err = run_here(
        first,
        *("--task", "span_corruption", "--data", str(text)),
        *(*SMALL, "--sequence-length", "48"),
    )
    assert status == 0, err
    (row,) = rows(first)
    scores = row["validation_scores"]
    assert 1 < scores[-1] < scores[0] < np.log(500)
    status, _, err = run_here(
        second,
        *"--task translations --examples 64 --epochs 1 --lengths".split(),
        *"--variants R+V --num-heads 2 --sequence-length 48".split(),
        *("--batch-size", "16", "--init", str(first)),
    )
    assert status == 0, err
    settings = rows(second)[0]["key"]["settings"]
    assert (settings["num_layers"], settings["hidden_dim"]) == (1, 16)


def test_the_same_holes_are_scored_each_time():
    objective = tasks.TASKS["span_corruption"].objective
    ids = np.arange(600) % 50 + 5
    notes = {"vocabulary_size": 200, "start": 1, "end": 2}
    prepared = Prepared(*({"tokens": ids} for _ in range(3)), notes)
    small = objective.Settings(
        "span_corruption", sequence_length=24, batch_size=4
    )
    train, validation, _ = objective.batches(small, 0, prepared)
    assert isinstance(train, SpanCorruption)
    first = [x[0][1].copy() for x in (train, validation)]
    for batches in (train, validation):
        batches.on_epoch_end()
    again = [x[0][1] for x in (train, validation)]
    assert not np.array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])


def test_a_text_ends_in_what_it_is_validated_and_tested_on(tmp_path):
    for name, letter in (("b.txt", "b"), ("sub/a.txt", "a")):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{letter}{i:03d}" for i in range(100)))
    (tmp_path / ".hidden").write_text("left out")
    found = tasks.load(
        "mlm", tasks.Source(str(tmp_path)), tasks.TASKS["mlm"].settings("mlm")
    )
    assert json.loads(json.dumps(found[1:])) == [
        ["b098", "a098"],
        ["b099", "a099"],
    ]
    assert [len(x) for x in found[0]] == [4 * 98, 4 * 98]
