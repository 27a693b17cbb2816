"""Preprocessors and tokenizers: from texts to arrays."""
