"""Routes of attention."""
