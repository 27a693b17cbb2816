"""ListOps and IMDB as bytes: what runs read, and all variants that run."""

import keras
import numpy as np
import pytest
from command_line import BACKEND

from keras_synth import datasets, models
from keras_synth.commands import compare
from keras_synth.compare import grid, initial, options, prepare, tasks, worker

# The order of the comparison. Windows have no default, and Big Bird's blocks
# are longer than the inputs of tests.
VARIANTS = [
    *("V", "R", "FR", "R+V", "local(window=16)", "longformer(window=16)"),
    *("big_bird(block_size=4)", "linear", "performer", "linformer"),
    *("reformer", "sinkhorn", "fnet", "light_conv"),
]
TINY = {
    "num_layers": 1,
    "hidden_dim": 8,
    "intermediate_dim": 8,
    "epochs": 1,
    "batch_size": 16,
    "lengths": (),
}


def settings(task, **values):
    return tasks.TASKS[task].settings(task, **{**TINY, **values})


@pytest.fixture
def reviews(tmp_path):
    """A folder like IMDB's, and its training reviews."""
    texts = [
        f"Well{'!' * i} \u2013 {'good' if i % 2 else 'bad'}" for i in range(60)
    ]
    for split in ("train", "test"):
        for number, text in enumerate(texts):
            kind = "pos" if number % 2 else "neg"
            path = tmp_path / "aclImdb" / split / kind / f"{number}_5.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return tmp_path / "aclImdb", texts


@pytest.fixture(scope="module")
def expressions(tmp_path_factory):
    """Arrays of a small listops task."""
    wanted = settings("listops", sequence_length=26, examples=48)
    folder = tmp_path_factory.mktemp("data")
    return prepare.prepare(wanted, tasks.Source(), folder)


def loaded(**values):
    wanted = settings("listops", **values)
    return tasks.load("listops", tasks.Source(), wanted)


@pytest.mark.once
def test_listops_are_distinct_and_fit():
    *splits, names = loaded(sequence_length=26, examples=300)
    assert [len(labels) for _, labels in splits] == [300, 2_000, 2_000]
    texts = [text for side, _ in splits for text in side]
    assert len({*texts}) == len(texts)
    assert max(len(text.split()) for text in texts) == 24
    for side, labels in splits:
        for text, label in zip(side[:50], labels, strict=False):
            assert datasets.evaluate_listops(text) == label
    assert names == tuple("0123456789")
    more = loaded(sequence_length=26, examples=400)
    assert more[1][0] == splits[1][0]
    assert more[2][0] == splits[2][0]
    assert more[0][0][:300] == splits[0][0]


@pytest.mark.once
def test_the_tokens_of_listops_are_those_between_spaces(expressions):
    prepared = prepare.read(expressions)
    vocabulary = prepared.notes["vocabulary"]
    assert len(vocabulary) == prepared.notes["vocabulary_size"] == 20
    assert {"[MIN", "[MAX", "[MED", "[SM", "]", *"0123456789"} < {*vocabulary}
    for split in prepared[:3]:
        assert not (split["token_ids"] == vocabulary.index("[UNK]")).any()
        rows = zip(split["token_ids"], split["labels"], strict=True)
        for ids, label in [*rows][:40]:
            first, *tokens = (vocabulary[i] for i in ids if i)
            assert (first, tokens.pop()) == ("[CLS]", "[SEP]")
            assert datasets.evaluate_listops(" ".join(tokens)) == label


@pytest.mark.once
def test_reviews_are_read_as_bytes(reviews, tmp_path):
    folder, texts = reviews
    wanted = settings("byte_text", sequence_length=12)
    source = tasks.Source(str(folder))
    prepared = prepare.read(prepare.prepare(wanted, source, tmp_path))
    assert prepared.notes["vocabulary_size"] == 256
    assert prepared.test["token_ids"].shape == (60, 12)
    # Their ends, between the start and the end of a text.
    expected = {(2, *text.encode()[-10:], 3) for text in texts}
    assert {tuple(x) for x in prepared.test["token_ids"].tolist()} == expected
    whole = settings("byte_text", sequence_length=100)
    prepared = prepare.read(prepare.prepare(whole, source, tmp_path))
    found = {
        bytes(x for x in row if x).decode()
        for row in prepared.test["token_ids"].tolist()
    }
    assert found == {f"\x02{text}\x03" for text in texts}


@pytest.mark.once
@pytest.mark.parametrize("task", ["listops", "byte_text"])
def test_a_size_of_the_vocabulary_is_refused(task):
    given = ["--task", task, "--vocabulary-size", "500"]
    with pytest.raises(ValueError, match="--vocabulary-size means nothing"):
        options.settings_of(compare.parser().parse_args(given))


@pytest.mark.once
@pytest.mark.parametrize("task", ["listops", "byte_text"])
def test_every_variant_fits_the_tasks_own_sizes(task):
    own = tasks.TASKS[task].settings(task)
    needs = tasks.TASKS[task].objective.needs
    wanted = [*VARIANTS, "big_bird"]
    found = grid.runs(wanted, [2, 4], [0], ["torch"], own, needs)
    assert len(found) == 2 * len(wanted)


@pytest.mark.once
def test_a_preset_of_other_tokens_is_refused(tmp_path):
    tokenizer = models.SynthesizerByteTokenizer()
    backbone = models.SynthesizerBackbone(
        vocabulary_size=256,
        num_layers=1,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=8,
        synthesizer="R",
        max_sequence_length=8,
    )
    models.SynthesizerTextClassifier(
        backbone,
        2,
        models.SynthesizerTextClassifierPreprocessor(tokenizer, 8),
    ).save_to_preset(tmp_path)
    own, other = (
        models.SynthesizerByteTokenizer,
        models.SynthesizerWordTokenizer,
    )
    assert type(initial.tokenizer(own, tmp_path)) is own
    with pytest.raises(ValueError, match=r"WordTokenizer.*with a .*ByteToken"):
        initial.tokenizer(other, tmp_path)


def trained(wanted, data, variant, folder, keep=False):
    """Trains a variant and returns its result."""
    names = ("weights", "checkpoint", "preset")
    paths = {"data": data, **{name: folder / name for name in names}}
    run = grid.Run(variant, 2, 0, BACKEND)
    return worker.train(wanted, run, paths, lambda event: None, keep)


def test_a_model_of_expressions_is_trained_and_kept(expressions, tmp_path):
    wanted = settings("listops", sequence_length=26, examples=48)
    result = trained(wanted, expressions, "V", tmp_path, keep=True)
    assert len(result["losses"]) == 3
    assert 0 <= result["score"] <= 1
    assert result["classes"] == [*"0123456789"]
    kept = models.SynthesizerTextClassifier.from_preset(tmp_path / "preset")
    probabilities = kept.predict(["[MAX 2 9 ]", "[SM 1 1 ]"], verbose=0)
    assert keras.ops.shape(probabilities) == (2, 10)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_all_variants_learn_expressions(expressions, tmp_path, variant):
    wanted = settings("listops", sequence_length=26, examples=48, epochs=2)
    result = trained(wanted, expressions, variant, tmp_path)
    assert np.isfinite(result["losses"]).all()
    assert len(result["validation_scores"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_all_variants_learn_bytes(reviews, tmp_path, variant):
    wanted = settings("byte_text", sequence_length=100, learning_rate=1e-2)
    data = prepare.prepare(wanted, tasks.Source(str(reviews[0])), tmp_path)
    result = trained(wanted, data, variant, tmp_path)
    assert np.isfinite(result["losses"]).all()
    assert len(result["losses"]) == 3
