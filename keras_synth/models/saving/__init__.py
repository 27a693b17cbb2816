"""Presets, files, exports and layouts."""
