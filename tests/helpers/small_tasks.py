"""One small model of each task, with its preprocessor, and data for it."""

from keras_synth import models

SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
WORDS = "the film plot is good dull not but and a".split()
VOCABULARY = [*SPECIAL, *WORDS]
CLASSES = {
    "classifier": "TextClassifier",
    "causal_lm": "CausalLM",
    "seq2seq_lm": "Seq2SeqLM",
    "masked_lm": "MaskedLM",
    "token_classifier": "TokenClassifier",
}
KINDS = ("classifier", "causal_lm", "seq2seq_lm")
SIZES = {
    "num_layers": 1,
    "num_heads": 2,
    "hidden_dim": 8,
    "intermediate_dim": 16,
}


def tokenizer():
    return models.SynthesizerTokenizer(VOCABULARY)


def _class(kind, suffix=""):
    return getattr(models, f"Synthesizer{CLASSES[kind]}{suffix}")


def preprocessor(kind, length=8, **options):
    lengths = {"sequence_length": length}
    if kind == "seq2seq_lm":
        lengths = {
            "encoder_sequence_length": length,
            "decoder_sequence_length": length,
        }
    if kind == "masked_lm":
        options = {"mask_selection_rate": 0.4, **options}
    return _class(kind, "Preprocessor")(tokenizer(), **lengths, **options)


def backbone(kind, synthesizer="R+V", **options):
    """With a block for each synthesizer of a list, and small sizes."""
    sizes = {**SIZES, "vocabulary_size": len(VOCABULARY)}
    if isinstance(synthesizer, list):
        sizes["num_layers"] = len(synthesizer)
    options = {"max_sequence_length": 16, **sizes, **options}
    options["synthesizer"] = synthesizer
    if kind == "seq2seq_lm":
        return models.SynthesizerSeq2SeqBackbone(**options)
    return models.SynthesizerBackbone(causal=kind == "causal_lm", **options)


def task(kind, synthesizer="R+V", preprocess=True, num_classes=2, **options):
    if kind in ("classifier", "token_classifier"):
        options["num_classes"] = num_classes
    return _class(kind)(
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
