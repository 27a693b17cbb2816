"""Words and bytes as ids."""

from keras_synth.training.vocabulary import ByteVocabulary, WordVocabulary

__all__ = ["ByteVocabulary", "WordVocabulary"]
