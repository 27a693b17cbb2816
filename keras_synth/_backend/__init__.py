"""What depends on the backend, and what every layer is made of."""
