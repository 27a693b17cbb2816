"""One small model of each task, with its preprocessor, and data for it."""

from keras_synth import models

SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
WORDS = "the film plot is good dull not but and a".split()
VOCABULARY = [*SPECIAL, *WORDS]
KINDS = ("classifier", "causal_lm", "seq2seq_lm")
SIZES = {
    "num_layers": 1,
    "num_heads": 2,
    "hidden_dim": 8,
    "intermediate_dim": 16,
}


def tokenizer():
    return models.SynthesizerTokenizer(VOCABULARY)


def preprocessor(kind, length=8, **options):
    made = {
        "classifier": models.SynthesizerTextClassifierPreprocessor,
        "causal_lm": models.SynthesizerCausalLMPreprocessor,
        "seq2seq_lm": models.SynthesizerSeq2SeqLMPreprocessor,
    }[kind]
    lengths = {"sequence_length": length}
    if kind == "seq2seq_lm":
        lengths = {
            "encoder_sequence_length": length,
            "decoder_sequence_length": length,
        }
    return made(tokenizer(), **lengths, **options)


def backbone(kind, synthesizer="R+V"):
    if kind == "seq2seq_lm":
        return models.SynthesizerSeq2SeqBackbone(
            vocabulary_size=len(VOCABULARY),
            synthesizer=synthesizer,
            max_sequence_length=16,
            **SIZES,
        )
    return models.SynthesizerBackbone(
        vocabulary_size=len(VOCABULARY),
        synthesizer=synthesizer,
        max_sequence_length=16,
        causal=kind == "causal_lm",
        **SIZES,
    )


def task(kind, synthesizer="R+V", preprocess=True, num_classes=2, **options):
    made = {
        "classifier": models.SynthesizerTextClassifier,
        "causal_lm": models.SynthesizerCausalLM,
        "seq2seq_lm": models.SynthesizerSeq2SeqLM,
    }[kind]
    if kind == "classifier":
        options["num_classes"] = num_classes
    return made(
        backbone(kind, synthesizer),
        preprocessor=preprocessor(kind) if preprocess else None,
        **options,
    )


def examples(kind, texts):
    """`(x, y)` for `fit`; labels alternate."""
    if kind == "classifier":
        return texts, [i % 2 for i in range(len(texts))]
    if kind == "causal_lm":
        return texts, None
    return {"encoder_text": texts[::-1], "decoder_text": texts}, None
