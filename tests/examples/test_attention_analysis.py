"""The example that looks inside trained models."""

import keras_hub
import pytest
from places import ROOT
from scripts import run_script

from keras_synth import models

SCRIPT = ROOT / "examples" / "attention_analysis.py"
SIZES = {"num_layers": 2, "num_heads": 2, "hidden_dim": 16}
SIZES |= {"intermediate_dim": 16, "max_sequence_length": 16}
SENTENCES = ["a man plays the flute on the street", "ein mann spielt flöte"]


def encoder(folder):
    tokens = "[PAD] [UNK] [CLS] [SEP] [MASK] a man is the on flute".split()
    bert = keras_hub.models.BertBackbone(
        len(tokens), 2, 4, 16, 16, max_sequence_length=32
    )
    tokenizer = keras_hub.models.BertTokenizer(tokens, lowercase=True)
    for part in (bert, tokenizer):
        part.save_to_preset(str(folder))


@pytest.mark.slow
def test_your_own_presets_are_drawn(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pairs = models.SynthesizerBytePairTokenizer.from_texts(SENTENCES, 300)
    translator = models.SynthesizerSeq2SeqLM(
        models.SynthesizerSeq2SeqBackbone(300, **SIZES, synthesizer="R"),
        preprocessor=models.SynthesizerSeq2SeqLMPreprocessor(pairs, 16, 16),
    )
    translator.save_to_preset("translator")
    for name in "VR":
        models.SynthesizerCausalLM(
            models.SynthesizerBackbone(
                300, **SIZES, synthesizer=name, causal=True
            ),
            preprocessor=models.SynthesizerCausalLMPreprocessor(pairs, 16),
        ).save_to_preset(name)
    encoder(tmp_path / "bert")
    (tmp_path / "text.txt").write_text("\n".join(SENTENCES * 20))
    paths = {
        "TRANSLATOR": "translator",
        "SOURCES": "text.txt",
        "TARGETS": "text.txt",
        "LANGUAGE_MODELS": "V=V R=R",
        "TEXT": "text.txt",
        "ENCODER": "bert",
    }
    for name, path in paths.items():
        monkeypatch.setenv(name, path)
    done = run_script(SCRIPT)
    assert done.returncode == 0, done.stderr
    assert "translator decoder_layer_1/cross_attention entropy" in done.stdout
    assert "R decoder_layer_1/self_attention entropy" in done.stdout
    pictures = {x.name: x for x in tmp_path.glob("attention_analysis/*.png")}
    assert pictures.keys() == {
        "figure_2_before_training.png",
        "figure_3_after_training.png",
        "figures_4_5_translator.png",
        "figures_6_7_averages_R.png",
        "figures_6_7_averages_V.png",
        "figures_6_7_distance_profile.png",
        "encoder_heads.png",
    }
    assert all(x.stat().st_size > 5_000 for x in pictures.values())
