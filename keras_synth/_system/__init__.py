"""Files, processes and the terminal."""
