"""From texts to arrays."""
