"""What `fit`, `evaluate` and `predict` read."""
