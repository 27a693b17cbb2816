"""Tasks: backbones with heads, losses and preprocessing."""
