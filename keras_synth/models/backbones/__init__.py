"""Embeddings and blocks."""
