"""Backbones with heads, losses and preprocessing."""
