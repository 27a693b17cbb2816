"""The words of a text, or its bytes, numbered."""

import collections

import numpy as np


class WordVocabulary:
    """Words and their ids, for language models of words.

    Args:
        words: List of strings in the order of their ids, among them `unknown`.
        unknown: String, what any other word counts as.

    Example:

    >>> from keras_synth.vocabulary import WordVocabulary
    >>> vocabulary = WordVocabulary.from_text("to be or not to be".split())
    >>> vocabulary.words
    ['be', 'to', 'not', 'or', '<unk>']
    >>> vocabulary.encode("to do".split())
    array([1, 4], dtype=int32)
    """

    def __init__(self, words, unknown="<unk>"):
        self.words, self.unknown = list(words), unknown
        self.ids = {word: i for i, word in enumerate(self.words)}
        if unknown not in self.ids:
            raise ValueError(
                f"`words` must hold the unknown word {unknown!r}. Received: "
                f"{len(self.words)} words without it"
            )

    def __len__(self):
        return len(self.words)

    @classmethod
    def from_text(cls, text, unknown="<unk>"):
        """The words of a list, the most frequent one first."""
        counts = collections.Counter(text)
        counts[unknown] += 0
        return cls(sorted(counts, key=lambda x: (-counts[x], x)), unknown)

    def encode(self, text):
        """Returns the ids of a list of words, an int32 array `(N,)`."""
        unknown = self.ids[self.unknown]
        return np.array([self.ids.get(x, unknown) for x in text], "int32")

    def decode(self, ids):
        """Returns the words of ids, a list of strings."""
        return [self.words[i] for i in ids]

    def to_text(self, ids):
        """Returns ids as text to read: `"<eos>"` is the end of a line."""
        return " ".join(self.decode(ids)).replace("<eos>", "\n")


class ByteVocabulary:
    """Bytes of UTF-8, for language models without words.

    Example:

    >>> from keras_synth.vocabulary import ByteVocabulary
    >>> vocabulary = ByteVocabulary()
    >>> vocabulary.encode("to be".encode())
    array([116, 111,  32,  98, 101], dtype=uint8)
    >>> vocabulary.to_text([116, 111])
    'to'
    """

    words = ()  # they have no names

    def __len__(self):
        return 256

    def encode(self, text):
        """Returns the numbers of bytes, a uint8 array `(N,)`."""
        return np.frombuffer(text, "uint8")

    def decode(self, ids):
        """Returns the bytes of ids."""
        return bytes(map(int, ids))

    def to_text(self, ids):
        """Returns ids as text to read; what is no UTF-8 is marked."""
        return self.decode(ids).decode(errors="replace")
