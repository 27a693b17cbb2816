"""The process that computes for accelerator.py, with one backend.

It says what it runs on, then answers cases. Before each contender it says whose
turn it is: should it hang, or be killed, the other process knows by whom.
"""

import gc
import importlib.metadata
import math
import os
import platform
import sys
import time

import apart
import keras
import measuring
import numpy as np
import steps

from keras_synth.layers import SynthesizerEncoder

ROUNDS = 7
# The share of a case's time in which contenders may still be made ready.
PREPARING = 0.6


class StepFailed(Exception):
    """A step that raised when it was timed; `args` are its name and why."""


def environment():
    """The versions and devices that measurements depend on, by name."""
    backend = keras.backend.backend()
    where, device = steps.place()
    if where == "cpu":
        device = f"CPU {platform.machine()}, {os.cpu_count()} cores"
    packages = ["keras", "keras-hub", "numpy", backend, "jaxlib", "triton"]
    versions = {"python": platform.python_version()}
    for name in packages:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            # Nightly builds have names of their own.
            module = sys.modules.get(name.replace("-", "_"))
            versions[name] = getattr(module, "__version__", None)
    if backend == "torch":
        import torch

        versions["cuda"] = torch.version.cuda
    return {
        "backend": backend,
        "device": device,
        "platform": where,
        "versions": versions,
    }


# --- parts ---


def layer_step(shape, name):
    """One step of a layer, of which only the time counts."""
    cell = steps.Cell(*(shape[field] for field in steps.Cell._fields))
    return steps.step_of(shape["mode"], name, cell), {}


def training_step(shape, name):
    """Some training steps of a classifier, and how many tokens they see."""
    keras.utils.set_random_seed(0)
    keras.config.set_dtype_policy(shape["dtype"])
    try:
        model = classifier(name, shape)
    finally:
        keras.config.set_dtype_policy("float32")
    # Elsewhere Keras compiles by itself.
    is_torch = steps.BACKEND == "torch"
    jit = {"jit_compile": True} if steps.COMPILED and is_torch else {}
    model.compile(
        keras.optimizers.AdamW(1e-4),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        **jit,
    )
    random, batch = np.random.default_rng(0), shape["batch"]
    count = shape["steps"] * batch
    tokens = random.integers(
        1, shape["vocabulary"], (count, shape["length"]), "int32"
    )
    labels = random.integers(0, 2, count, "int32")

    def step():
        # It returns losses as numbers, and has waited for the device.
        model.fit(tokens, labels, batch_size=batch, verbose=0)

    return step, {"tokens": tokens.size, "parameters": model.count_params()}


def classifier(name, shape):
    """Embeddings, blocks, the mean of all tokens and two classes.

    Needs no KerasHub. The baseline has the same blocks of Keras' own layers.
    """
    layers, width, heads = keras.layers, shape["width"], shape["heads"]
    inputs = keras.Input((shape["length"],), dtype="int32")
    x = layers.Embedding(shape["vocabulary"], width)(inputs)
    for _ in range(shape["blocks"]):
        if name == steps.BASELINE:
            attention = layers.MultiHeadAttention(heads, width // heads)
            x = layers.LayerNormalization()(x + attention(x, x))
            hidden = layers.Dense(4 * width, activation="relu")(x)
            x = layers.LayerNormalization()(x + layers.Dense(width)(hidden))
        else:
            x = SynthesizerEncoder(
                4 * width, heads, synthesizer=name, max_length=shape["length"]
            )(x)
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, layers.Dense(2, dtype="float32")(x))


def generation_step(shape, name):
    """Texts from prompts, and how many tokens are written."""
    import contenders

    fields = ("width", "heads", "blocks", "length", "vocabulary")
    sizes = contenders.sizes(*(shape[field] for field in fields))
    model = contenders.generator(name, sizes, shape["dtype"])
    step, tokens = contenders.writing(model, shape["batch"])
    return step, {"tokens": tokens}


MAKERS = {
    "layers": layer_step,
    "training": training_step,
    "generation": generation_step,
}


# --- timing ---


class Work:
    """A case: makes its contenders ready, and times them in turn.

    Args:
        case: Dictionary of `part`, `way`, `names`, `shape` and `seconds`.
        tell: Function that sends a dictionary to the other process.
    """

    def __init__(self, case, tell):
        self.case, self.tell = case, tell
        self.ends = time.monotonic() + case["seconds"]
        self.worth, self.first, self.seconds = {}, {}, {}

    def run(self):
        steps.COMPILED = self.case["way"] == "compiled"
        if steps.BACKEND == "torch":
            _many_programs()
        if self.case["part"] == "memory":
            self._memory()
            return
        ready, timings = self._ready(), {}
        self.tell({"at": None})
        while ready and not timings:
            try:
                timings = self._timed(ready)
            except StepFailed as failure:
                name, why = failure.args
                self.tell({"name": name, "error": why})
                del ready[name]
        self._report(timings)

    def _memory(self):
        """The most memory of a layer's step: for a process of its own."""
        (name,) = self.case["names"]
        self.tell({"at": name})
        try:
            steps.array([0.0])  # starts the backend
            memory = apart.PeakMemory()
            step, _ = layer_step(self.case["shape"], name)
            step()
            values = {"bytes": int(memory.of(step))}
            self.tell({"name": name, "values": values})
        except Exception as error:
            self.tell({"name": name, **_why(error)})

    def _ready(self):
        """Steps that have run, by their names, as far as there is time."""
        ready = {}
        preparing = self.ends - (1 - PREPARING) * self.case["seconds"]
        for name in self.case["names"]:
            # Those that are ready must be timed yet: four times at least, and
            # other work on the machine may make it six.
            if time.monotonic() + 6 * self._once(ready) > preparing:
                break
            self.tell({"at": name})
            try:
                step, self.worth[name] = self._made(name)
                self.first[name] = _seconds(step)
                self.seconds[name] = _seconds(step)
                ready[name] = step
            except Exception as error:
                self.tell({"name": name, **_why(error)})
                _forget()
        return ready

    def _made(self, name):
        return MAKERS[self.case["part"]](self.case["shape"], name)

    def _once(self, ready):
        """Seconds of a round."""
        return sum(max(measuring.SLICE_SECONDS, self.seconds[x]) for x in ready)

    def _timed(self, ready):
        once = self._once(ready)
        # `interleaved` calls each three times first. A fifth is kept back.
        left = 0.8 * (self.ends - time.monotonic())
        rounds = max(1, min(ROUNDS, math.floor(left / once) - 3))
        guarded = {name: _guarded(name, step) for name, step in ready.items()}
        return measuring.interleaved(guarded, rounds)

    def _report(self, timings):
        against = self.case["names"][0]
        for name, timing in timings.items():
            values = {
                "seconds": _rounded(timing.median),
                "spread": _rounded(timing.spread),
                "first_call": _rounded(self.first[name]),
                **self.worth[name],
            }
            if "tokens" in values:
                values["tokens_per_second"] = _rounded(
                    values["tokens"] / timing.median
                )
            if against in timings:
                values["ratio"] = _rounded(
                    timings[against].median / timing.median
                )
            self.tell({"name": name, "values": values})


def _guarded(name, step):
    def guarded():
        try:
            step()
        except Exception as error:
            raise StepFailed(name, _why(error).get("error", "")) from error

    return guarded


def _why(error):
    """One line: what a row says of what could not be measured."""
    words = " ".join(str(error).split())[:300]
    if isinstance(error, ImportError):
        return {"skipped": f"not installed: {words}"}
    return {"error": f"{type(error).__name__}: {words}"}


def _seconds(step):
    started = time.monotonic()
    step()
    return time.monotonic() - started


def _rounded(x):
    return float(f"{x:.4g}")


def _many_programs():
    """Lets PyTorch hold a program for each contender.

    Beyond eight for one function of Keras it would run what comes next as it
    is, and say nothing.
    """
    import torch._dynamo

    torch._dynamo.reset()
    for name in ("recompile_limit", "accumulated_recompile_limit"):
        setattr(torch._dynamo.config, name, 10_000)


def _forget():
    """Gives back what a contender held that failed."""
    gc.collect()
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_available():
        sys.modules["torch"].cuda.empty_cache()


def answer(connection):
    """Answers the cases of the other process until it ends this one."""
    connection.send(environment())
    while True:
        Work(connection.recv(), connection.send).run()
        gc.collect()
        connection.send(None)
