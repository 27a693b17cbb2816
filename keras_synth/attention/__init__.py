"""Attention: logits, masks and routes."""
