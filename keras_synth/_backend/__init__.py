"""Code that depends on the backend, and the base of layers."""
