"""One route of attention in each module."""
