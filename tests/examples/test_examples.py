"""The scripts of examples/, with smaller constants."""

import re
from importlib.util import find_spec

import pytest
from places import ROOT

FOLDER = ROOT / "examples"
SIZES = "BATCH_SIZE, EPOCHS, LEARNING_RATE"
SMALL = {
    "demo.py": {"EXAMPLES, EPOCHS, SEED": "64, 1, 0", "VARIANTS": '["R"]'},
    "text_classification.py": {SIZES: "512, 1, 1e-3"},
    "sequence_labelling.py": {SIZES: "32, 1, 1e-3", "EXAMPLES": "200"},
    "translation.py": {SIZES: "32, 1, 1e-3", "EXAMPLES": "200", "TEST": "8"},
    "language_model.py": {SIZES: "512, 1, 1e-3"},
    "pretraining.py": {
        SIZES: "512, 1, 1e-3",
        "LABELLED, FINE_TUNING_EPOCHS": "64, 1",
    },
    "hardware.py": {"TRAIN, TEST, EPOCHS, SEED": "256, 64, 1, 0"},
    "what_attention_needs.py": {
        "SEEDS": "[0]",
        "STEPS, BATCH, TEST": "2, 16, 20",
    },
}
SAYS = {
    "demo.py": "variant  easy reviews  hard reviews",
    "text_classification.py": "Accuracy on the test",
    "sequence_labelling.py": "most frequent: ",
    "translation.py": "four beams: BLEU",
    "pretraining.py": "random weights: accuracy",
    "hardware.py": "mlp_mixer, plain: accuracy",
    "what_attention_needs.py": "retrieval  local(window=2)",
}


def run(name, until=None):
    """Runs a script, or its cells before a line, with small constants."""
    path = FOLDER / name
    text = path.read_text(encoding="utf-8")
    for constant, value in SMALL[name].items():
        line = rf"(?m)^{re.escape(constant)} = .*$"
        assert re.search(line, text), constant
        text = re.sub(line, f"{constant} = {value}", text)
    if until is not None:
        text, found, _ = text.partition(f"\n{until}\n")
        assert found
    code = compile(text, str(path), "exec")
    exec(code, {"__name__": "__main__", "__file__": str(path)})


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_a_script_runs_to_its_end(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    missing = name == "hardware.py" and not find_spec("hls4ml")
    run(name, until="import hls4ml" if missing else None)
    assert SAYS.get(name, "") in capsys.readouterr().out
    if name == "demo.py":
        assert (tmp_path / "demo.png").stat().st_size > 10_000


@pytest.mark.once
@pytest.mark.parametrize(
    "path", sorted(FOLDER.glob("*.py")), ids=lambda x: x.name
)
def test_a_script_is_a_notebook(path):
    """Cells of text and code, without arguments or a fixed backend."""
    text = path.read_text(encoding="utf-8")
    assert re.match(r'"""\nTitle: .+\n', text)
    for word in ("argparse", "sys.argv", "KERAS_BACKEND"):
        assert word not in text
    ends = text.count('\n\n"""\n') + text.startswith('"""\n')
    assert ends >= 4
