"""Texts, whatever holds them, as Python strings."""

import numpy as np


def plain_texts(texts, name="inputs"):
    """Returns texts as Python strings, nested as they came.

    Args:
        texts: A string, a list of strings, an array of strings, a pandas
            Series; anything else, such as a tensor, is returned as it is.
        name: String, what errors call them.

    Raises:
        ValueError: A text is missing, holds half a character, or is bytes
            that are no UTF-8.
    """
    if isinstance(texts, (str, bytes)):
        return _checked(texts, name)
    if hasattr(texts, "to_numpy"):
        texts = texts.to_numpy()
    if isinstance(texts, np.ndarray) and texts.dtype.kind in "OSTU":
        texts = texts.tolist()
    if isinstance(texts, list):
        return [plain_texts(x, f"{name}[{at}]") for at, x in enumerate(texts)]
    if _is_missing(texts):
        raise ValueError(
            f"{name} is missing: drop such examples, or fill them with texts. "
            f"Received: {name}={texts!r}"
        )
    return texts


def _is_missing(value):
    """Whether it is None, NaN, or what pandas has for them."""
    return (
        value is None
        or (isinstance(value, float) and value != value)
        or type(value).__name__ in ("NAType", "NaTType")
    )


def _checked(text, name):
    if isinstance(text, bytes):
        text = _decoded(text, name)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{name} holds a lone surrogate, half of a character, at place "
            f"{error.start}. Replace it: text.encode('utf-8', 'replace')"
            f".decode('utf-8'). Received: {text!r:.60}"
        ) from None
    return text


def _decoded(text, name):
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name} is no UTF-8 at byte {error.start}. Decode it as what it "
            "is, such as text.decode('latin-1'), or by text.decode('utf-8', "
            f"'replace'). Received: {text!r:.60}"
        ) from None
