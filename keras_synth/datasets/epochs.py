"""Batches that are drawn anew in each epoch."""

import keras


class EpochBatches(keras.utils.PyDataset):
    """Batches whose order depends on a seed and the epoch alone.

    Args:
        seed: Integer, not negative.
        epoch: Integer, the epoch to start with; an attribute that grows with
            each pass.
    """

    def __init__(self, seed, epoch):
        super().__init__()
        self.seed, self.epoch = seed, epoch
        self._planned = None

    def on_epoch_end(self):
        """Goes on to the next epoch; Keras calls it."""
        self.epoch += 1

    def plan(self, epoch):
        """What `make_plan` returns, made once for each epoch in a row."""
        planned = self._planned
        if planned is None or planned[0] != epoch:
            self._planned = planned = epoch, self.make_plan(epoch)
        return planned[1]

    def make_plan(self, epoch):
        """Returns what tells the batches of an epoch."""
        raise NotImplementedError
