"""Backbones: embeddings and blocks."""
