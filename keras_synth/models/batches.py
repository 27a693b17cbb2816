"""Models that take tokenized batches from a `PyDataset`."""

import keras


class TakesBatches:
    """Lets `fit`, `evaluate` and `predict` take a `keras.utils.PyDataset`.

    KerasHub's pipeline takes strings, arrays and datasets of TensorFlow and
    Grain. A `PyDataset`, such as `keras_synth.datasets.LengthBuckets`, delivers
    tokenized batches and goes to Keras itself: for models without
    preprocessor. Mixed into a KerasHub task before its base class.
    """

    def fit(self, x=None, y=None, **kwargs):
        """Trains the model, as the base class or `keras.Model.fit`."""
        if self._is_tokenized(x):
            # In the order of the dataset: it may shuffle itself.
            return keras.Model.fit(self, x, y, **{**kwargs, "shuffle": False})
        return super().fit(x, y, **kwargs)

    def evaluate(self, x=None, y=None, **kwargs):
        """Scores the model; x and y as in `fit`."""
        if self._is_tokenized(x):
            return keras.Model.evaluate(self, x, y, **kwargs)
        return super().evaluate(x, y, **kwargs)

    def predict(self, x, **kwargs):
        """Returns outputs; x as in `fit`."""
        if self._is_tokenized(x):
            return keras.Model.predict(self, x, **kwargs)
        return super().predict(x, **kwargs)

    def _is_tokenized(self, x):
        if not isinstance(x, keras.utils.PyDataset):
            return False
        if self.preprocessor is not None:
            raise ValueError(
                "A PyDataset delivers tokenized batches, but this model has a "
                "preprocessor, which wants raw strings. Build it with "
                "preprocessor=None, and set model.preprocessor afterwards, or "
                f"pass strings. Received: {type(x).__name__}"
            )
        return True
