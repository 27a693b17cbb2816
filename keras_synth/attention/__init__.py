"""Attention: logits, masks, and the routes that compute it."""
