"""What a sequence-to-sequence model generates for all test sources."""

import numpy as np

BATCH_SIZE = 64  # one shape, since JAX and XLA compile for each


def generate(model, sources, lengths, emit):
    """Generates greedily, in batches of sources of about equal length.

    Args:
        model: `SynthesizerSeq2SeqLM`, compiled, with its preprocessor.
        sources: List of strings.
        lengths: Array `(N,)`, how many tokens each source has.
        emit: Function that takes an event, a dictionary.

    Returns:
        List of strings, one for each source.
    """
    # A batch takes as long as its longest text, so equal lengths go together.
    order = np.argsort(lengths, kind="stable")
    size = min(BATCH_SIZE, len(order))
    written = [""] * len(order)
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        filled = np.resize(rows, size)  # the last batch repeats its rows
        made = model.generate([sources[i] for i in filled])
        for row, text in zip(rows, made, strict=False):
            written[row] = text
        emit({"note": f"written {start + len(rows)} of {len(order)}"})
    return written
