"""Texts from prompts: `generate` of Synthesizers against KerasHub's GPT-2.

`SynthesizerCausalLM` and `keras_hub.models.GPT2CausalLM` of equal size, with
random weights, the same tokenizer and activation, continue a batch of prompts
greedily to each of `--lengths` tokens, from strings to strings. All variants
are timed in turn in one process.

    KERAS_BACKEND=jax python benchmarks/generation.py
    KERAS_BACKEND=torch python benchmarks/generation.py D+V --lengths 128
    KERAS_BACKEND=jax python benchmarks/generation.py --caches \\
        --num-layers 2 --batch-size 32 --lengths 512

With `--caches` nothing is timed: the table has the size of the caches.
"""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import contenders
import keras
import measuring
import steps

from keras_synth import mixers, synthesizers

CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}


def parse():
    parser = measuring.options(
        __doc__,
        {"clock": [*CLOCKS]},  # processor: of all cores, for a busy machine
        lengths=[128, 512],
        batch_size=8,
        vocabulary_size=8000,
        num_layers=6,
        hidden_dim=512,
        num_heads=8,
        dtype="float32",
        rounds=5,
        clock="wall",
        caches=False,
    )
    names = "V R R+V".split()
    parser.add_argument("synthesizers", nargs="*", default=names)
    settings = parser.parse_args()
    for name in settings.synthesizers:
        try:
            synthesizers.get(name, settings.num_heads, 8, 8)
        except ValueError as error:
            parser.error(str(error))
    if min(settings.lengths) <= contenders.PROMPT + 1:
        parser.error(
            f"--lengths must be more than the prompt's {contenders.PROMPT + 1} "
            f"tokens. Received: --lengths {min(settings.lengths)}"
        )
    return settings


def caches(length, settings):
    """Yields rows of names and MiB; KerasHub's cache has keys and values."""
    width, dtype = settings.hidden_dim, settings.dtype
    entries = 2 * settings.batch_size * length * width
    itemsize = keras.ops.zeros(1, dtype).dtype.itemsize
    sizes = {"TransformerDecoder": entries * itemsize}
    for name in settings.synthesizers:
        heads = settings.num_heads
        mixer = mixers.get(name, heads, width // heads, length, dtype=dtype)
        mixer.build((settings.batch_size, length, width))
        cache = mixer.make_cache(settings.batch_size, length)
        sizes[name] = sum(
            keras.ops.size(x) * itemsize for x in keras.tree.flatten(cache)
        )
    for name, size in sizes.items():
        yield name, f"{settings.num_layers * int(size) / 2**20:,.2f}"


def measure(length, settings):
    """Yields rows of names, tokens per second, ratios and spreads."""
    sizes = contenders.sizes(
        settings.hidden_dim,
        settings.num_heads,
        settings.num_layers,
        length,
        settings.vocabulary_size,
    )
    calls, counts = {}, {}
    for name in (contenders.GENERATOR, *settings.synthesizers):
        model = contenders.generator(name, sizes, settings.dtype)
        calls[name], counts[name] = contenders.writing(
            model, settings.batch_size
        )
    if len({*counts.values()}) > 1:
        raise RuntimeError(f"All must write as many tokens. Received: {counts}")
    timings = measuring.interleaved(
        calls, settings.rounds, CLOCKS[settings.clock]
    )
    first = timings[contenders.GENERATOR].median
    for name, timing in timings.items():
        yield (
            name,
            f"{counts[name] / timing.median:,.0f}",
            f"{first / timing.median:.2f}",
            f"{100 * timing.spread / timing.median:.0f}%",
        )


def main():
    settings = parse()
    head = f"{steps.device()}, {settings.num_layers} blocks, "
    head += f"d {settings.hidden_dim}, B {settings.batch_size}, "
    head += f"{settings.dtype}, {settings.clock} time"
    for length in settings.lengths:
        title = f"{length} tokens: {head}"
        if settings.caches:
            rows, heads = caches(length, settings), ["", "cache, MiB"]
        else:
            heads = ["", "tokens/s", "ratio", "+-"]
            rows = measure(length, settings)
        measuring.print_table(title, heads, rows)


if __name__ == "__main__":
    main()
