"""What a sequence-to-sequence model generates for all test sources."""

import numpy as np

import keras_synth

BATCH_SIZE = 64  # one shape, since JAX and XLA compile for each


def generate(model, prepared, emit):
    """Generates greedily, in batches of sources of about equal length.

    Args:
        model: `SynthesizerSeq2SeqLM`, compiled.
        prepared: `Prepared`, with the vocabulary in its notes.
        emit: Function that takes an event, a dictionary.

    Returns:
        List of strings, one for each test source.
    """
    tokenizer = keras_synth.models.SynthesizerBytePairTokenizer(
        {token: i for i, token in enumerate(prepared.notes["vocabulary"])},
        prepared.notes["merges"],
    )
    features = _prompts(prepared.test)
    real = features["encoder_padding_mask"].sum(axis=1)
    # A batch takes as long as its longest text, so equal lengths go together.
    order = np.argsort(real, kind="stable")
    size = min(BATCH_SIZE, len(order))
    written = [""] * len(order)
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        filled = np.resize(rows, size)  # the last batch repeats its rows
        made = model.generate(
            {name: x[filled] for name, x in features.items()},
            stop_token_ids=(tokenizer.end_token_id,),
        )
        for row, text in zip(rows, _texts(tokenizer, made), strict=False):
            written[row] = text
        emit({"note": f"written {start + len(rows)} of {len(order)}"})
    return written


def _prompts(arrays):
    """Sources, and targets of which nothing but the start is there."""
    features = {
        name: arrays[name].astype("int32")
        for name in (
            "encoder_token_ids",
            "encoder_padding_mask",
            "decoder_token_ids",
            "decoder_padding_mask",
        )
    }
    features["decoder_token_ids"][:, 1:] = 0
    features["decoder_padding_mask"][:, 1:] = 0
    return features


def _texts(tokenizer, made):
    special = np.array(tokenizer.special_token_ids)
    real = made["decoder_padding_mask"].astype(bool)
    real &= ~np.isin(made["decoder_token_ids"], special)
    return tokenizer.detokenize(
        [
            ids[mask].tolist()
            for ids, mask in zip(made["decoder_token_ids"], real, strict=True)
        ]
    )
