"""Losses, metrics, optimizers, schedules, callbacks and batches for `fit`."""
