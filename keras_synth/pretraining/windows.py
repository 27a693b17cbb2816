"""A long sequence of tokens, cut into rows for a masked language model."""

from typing import Any

import numpy as np

from keras_synth._backend.checks import check_positive
from keras_synth.types import Tensor


def pack_tokens(
    token_ids: Tensor,
    sequence_length: int,
    start_token_id: int,
    end_token_id: int,
) -> dict[str, Any]:
    """Cuts tokens into rows of one length, `[CLS] tokens [SEP]`.

    Rows are full, whatever texts they hold parts of ("full sentences" of Liu
    et al., 2019, https://arxiv.org/abs/1907.11692, section 4.2); what is left
    over at the end of the tokens is left out.

    Args:
        token_ids: Integer array `(N,)`, the ids of all texts, one after the
            other.
        sequence_length: Integer, tokens of each row, at least 3, start and
            end token included.
        start_token_id: Integer, before each row.
        end_token_id: Integer, after it.

    Returns:
        Dictionary of int32 arrays `(rows, sequence_length)`, `"token_ids"`
        and `"padding_mask"`, for `MaskedTokens`.

    Raises:
        ValueError: If there are too few tokens for a row.

    Example:

    >>> rows = keras_synth.pretraining.pack_tokens(
    ...     np.arange(10, 17), 5, start_token_id=1, end_token_id=2)
    >>> rows["token_ids"].tolist()
    [[1, 10, 11, 12, 2], [1, 13, 14, 15, 2]]
    """
    inner = check_positive("sequence_length", sequence_length) - 2
    token_ids = np.asarray(token_ids)
    if inner < 1 or len(token_ids) < inner:
        raise ValueError(
            "A row has a start token, an end token and one token or more "
            "between them. Pass longer texts, or another sequence_length of "
            f"at least 3. Received: {len(token_ids)} tokens and "
            f"sequence_length={sequence_length}"
        )
    count = len(token_ids) // inner
    rows = np.empty((count, sequence_length), "int32")
    rows[:, 0], rows[:, -1] = start_token_id, end_token_id
    rows[:, 1:-1] = token_ids[: count * inner].reshape(count, inner)
    return {"token_ids": rows, "padding_mask": np.ones_like(rows)}
