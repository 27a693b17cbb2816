"""The example that looks inside trained models."""

import pytest
from places import ROOT
from scripts import run_script

from keras_synth import models
from keras_synth.training.model_card import save_with_card

SCRIPT = ROOT / "examples" / "attention_analysis.py"
SIZES = {"num_layers": 2, "num_heads": 2, "hidden_dim": 16}
SIZES |= {"intermediate_dim": 16, "max_sequence_length": 16}
TEXTS = ["a man plays the flute on the street", "ein mann spielt flöte"]


def run(*arguments):
    return run_script(SCRIPT, *arguments)


def pictures(folder):
    found = {path.name: path.read_bytes() for path in folder.glob("*.png")}
    assert all(x.startswith(b"\x89PNG") for x in found.values())
    return {*found}


def byte_pairs():
    return models.SynthesizerBytePairTokenizer.from_texts(TEXTS, 300)


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--encoder --translators --language-models is required"),
        (["--encoder", "x", "--translators", "y"], "not allowed with"),
        (["--translators", "x"], "--data is what all but an --encoder read"),
        (["--encoder", "x", "--data", "y"], "--data is what all but"),
    ],
)
def test_it_says_what_it_needs(arguments, words):
    done = run(*arguments)
    assert done.returncode == 2
    assert words in done.stderr


@pytest.mark.slow
def test_translators(data, tmp_path):
    for name in "VR":
        backbone = models.SynthesizerSeq2SeqBackbone(
            300, **SIZES, synthesizer=name
        )
        models.SynthesizerSeq2SeqLM(
            backbone,
            preprocessor=models.SynthesizerSeq2SeqLMPreprocessor(
                byte_pairs(), 16, 16
            ),
        ).save_to_preset(str(tmp_path / name))
    done = run(
        *("--translators", tmp_path / "V", tmp_path / "R"),
        *("--data", data / "multi30k", "--output", tmp_path / "drawn"),
    )
    assert done.returncode == 0, done.stderr
    assert "R: encoder_layer_0/self_attention" in " ".join(done.stdout.split())
    assert pictures(tmp_path / "drawn") == {
        "figure_2_before_training.png",
        "figure_3_after_training.png",
        "figures_4_5_translator_R.png",
        "figures_4_5_translator_V.png",
    }


@pytest.mark.slow
def test_language_models_of_byte_pairs_and_of_words(data, tmp_path):
    def model(name, size, **options):
        backbone = models.SynthesizerBackbone(
            size, **SIZES, synthesizer=name, causal=True
        )
        return models.SynthesizerCausalLM(backbone, **options)

    preprocessor = models.SynthesizerCausalLMPreprocessor(byte_pairs(), 16)
    pairs = model("R", 300, preprocessor=preprocessor)
    pairs.save_to_preset(str(tmp_path / "pairs"))
    words = ["the", "of", "<eos>", "<unk>"]
    save_with_card(
        model("V", len(words)),
        *(tmp_path / "words", "wikitext2", "V", "", {}),
        words=words,
    )
    done = run(
        *("--language-models", tmp_path / "pairs", tmp_path / "words"),
        *("--data", data / "wikitext-2", "--output", tmp_path / "drawn"),
    )
    assert done.returncode == 0, done.stderr
    assert "words: decoder_layer_1" in " ".join(done.stdout.split())
    assert pictures(tmp_path / "drawn") == {
        "figures_6_7_averages_pairs.png",
        "figures_6_7_averages_words.png",
        "figures_6_7_distance_profile.png",
    }


@pytest.mark.slow
def test_an_encoder(tmp_path):
    import keras_hub

    tokens = "[PAD] [UNK] [CLS] [SEP] [MASK] a man is the on flute".split()
    encoder = keras_hub.models.BertBackbone(
        len(tokens), 2, 4, 16, 16, max_sequence_length=32
    )
    tokenizer = keras_hub.models.BertTokenizer(tokens, lowercase=True)
    for part in (encoder, tokenizer):
        part.save_to_preset(str(tmp_path / "bert"))
    done = run("--encoder", tmp_path / "bert", "--output", tmp_path / "drawn")
    assert done.returncode == 0, done.stderr
    assert "transformer_layer_1/self_attention_layer" in done.stdout
    assert pictures(tmp_path / "drawn") == {
        "encoder_heads.png",
        "encoder_input_dependence.png",
        "encoder_sentence.png",
    }


@pytest.mark.slow
def test_a_preset_that_is_not_there_is_named(tmp_path):
    done = run("--encoder", tmp_path / "none")
    assert done.returncode == 2
    assert str(tmp_path / "none") in done.stderr
    assert "Traceback" not in done.stderr
