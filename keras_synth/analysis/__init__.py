"""What attention does inside a model."""
