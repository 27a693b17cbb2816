"""Texts from prompts: `generate` of Synthesizers against KerasHub's GPT-2.

`SynthesizerCausalLM` and `keras_hub.models.GPT2CausalLM` of equal size, with
random weights, the same tokenizer and activation, continue a batch of prompts
greedily to each of `--lengths` tokens, from strings to strings. No token ends
a text, so that all write as many. All contenders are timed in turn in one
process.

    KERAS_BACKEND=jax python benchmarks/generation.py
    KERAS_BACKEND=torch python benchmarks/generation.py D+V --lengths 128
"""

import argparse
import itertools
import os
import pathlib
import string
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import command
import keras
import keras_hub
import numpy as np
import steps
from keras import ops
from measuring import interleaved
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from keras_synth import models, synthesizers
from keras_synth.models.preprocessors.tokenizer import BYTE_PAIRS

BASELINE = "GPT2CausalLM"
VARIANTS = "V R R+V".split()
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
PROMPT = 15  # tokens, after the start token


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = command.adder(parser)
    add("synthesizers", "names of variants", nargs="*", default=VARIANTS)
    add(
        "--lengths",
        nargs="+",
        type=int,
        default=[128, 512],
        help=f"in tokens, the prompt's {PROMPT + 1} among them",
    )
    add("--batch-size", dest="batch", type=int, default=8)
    add("--vocabulary-size", type=int, default=8000, help="byte pairs")
    add("--num-layers", dest="layers", type=int, default=6)
    add("--hidden-dim", dest="width", type=int, default=512)
    add("--num-heads", dest="heads", type=int, default=8)
    add("--dtype", default="float32")
    add("--rounds", type=int, default=5)
    add(
        "--clock",
        choices=CLOCKS,
        default="wall",
        help="processor counts the seconds of this process on all cores: for "
        "machines that others use, too",
    )
    add("--markdown", type=pathlib.Path, help="a file for the table")
    settings = command.parse(parser)
    for name in settings.synthesizers:
        try:
            synthesizers.get(name, settings.heads, 8, 8)
        except ValueError as error:
            parser.error(str(error))
    if min(settings.lengths) <= PROMPT + 1:
        parser.error(
            f"--lengths must be more than the prompt's {PROMPT + 1} tokens. "
            f"Received: --lengths {min(settings.lengths)}"
        )
    return settings


def tokenizer(vocabulary_size):
    """A tokenizer of letters and, as far as there is room, groups of them."""
    letters = string.ascii_letters
    pairs = itertools.product(letters, letters)
    triples = itertools.product(letters, letters, letters)
    rules = [f"{a} {b}" for a, b in pairs]
    rules += [f"{a}{b} {c}" for a, b, c in triples]
    signs = [*BYTE_PAIRS, *map(chr, range(33, 127))]
    rules = rules[: vocabulary_size - len(signs)]
    tokens = signs + [rule.replace(" ", "") for rule in rules]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    return models.SynthesizerBytePairTokenizer(vocabulary, rules)


def gelu(x):
    """GPT-2's activation."""
    return keras.activations.gelu(x, approximate=True)


def made(name, settings, length):
    """A language model with its preprocessor, ready to generate."""
    sizes = {
        "vocabulary_size": settings.vocabulary_size,
        "num_layers": settings.layers,
        "num_heads": settings.heads,
        "hidden_dim": settings.width,
        "intermediate_dim": 4 * settings.width,
        "max_sequence_length": length,
        "dtype": settings.dtype,
    }
    tokens = tokenizer(settings.vocabulary_size)
    if name == BASELINE:
        model = keras_hub.models.GPT2CausalLM(
            keras_hub.models.GPT2Backbone(**sizes),
            keras_hub.models.GPT2CausalLMPreprocessor(tokens, length),
        )
    else:
        model = models.SynthesizerCausalLM(
            models.SynthesizerBackbone(
                synthesizer=name, causal=True, activation=gelu, **sizes
            ),
            models.SynthesizerCausalLMPreprocessor(tokens, length),
        )
    model.compile(sampler="greedy")
    return model


def prompts(count):
    """Texts of `PROMPT` tokens each."""
    letters = np.random.default_rng(0).choice(
        [*string.ascii_lowercase], (count, PROMPT // 2 + 1, 2)
    )
    return [".".join(map("".join, words)) for words in letters]


def generate(model, texts):
    """A function that writes texts, and how many tokens these have."""
    inputs = model.preprocessor.generate_preprocess(texts)
    written = model.make_generate_function()(inputs, stop_token_ids=None)
    given, found = (
        int(np.sum(ops.convert_to_numpy(x["padding_mask"]) != 0))
        for x in (inputs, written)
    )
    return lambda: model.generate(texts, stop_token_ids=None), found - given


def measure(length, settings, progress):
    """Rows `(name, tokens per second, its spread)`."""
    texts, calls, counts = prompts(settings.batch), {}, {}
    for name in (BASELINE, *settings.synthesizers):
        model = made(name, settings, length)
        calls[name], counts[name] = generate(model, texts)
    if len({*counts.values()}) > 1:
        raise RuntimeError(f"All must write as many tokens. Received: {counts}")
    timings = interleaved(
        calls, settings.rounds, progress, CLOCKS[settings.clock]
    )
    return [
        (
            name,
            counts[name] / timing.median,
            timing.spread / timing.median,
        )
        for name, timing in timings.items()
    ]


def main():
    settings = parse()
    console = Console()
    head = f"{steps.device()}, {settings.layers} blocks, d {settings.width}"
    head += f", B {settings.batch}, {settings.dtype}, {settings.clock} time"
    lines = [
        head,
        "",
        "| length | | tokens/s | ratio |",
        "|---|---|---|---|",
    ]
    total = len(settings.lengths) * settings.rounds
    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("rounds", total=total)
        for length in settings.lengths:
            rows = measure(length, settings, lambda: progress.advance(bar))
            show(console, length, rows, head)
            speed = rows[0][1]
            lines += [
                f"| {length} | {name} | {tokens:,.0f} | {tokens / speed:.2f} |"
                for name, tokens, _ in rows
            ]
    if settings.markdown:
        settings.markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")


def show(console, length, rows, head):
    """Prints the table of one length; ratios are to KerasHub's GPT-2."""
    table = Table(title=f"{length} tokens: {head}")
    for heading in ("", "tokens/s", "ratio", "+-"):
        table.add_column(heading, justify="right")
    speed = rows[0][1]
    for name, tokens, spread in rows:
        table.add_row(
            name,
            f"{tokens:,.0f}",
            f"{tokens / speed:.2f}",
            f"{100 * spread:.0f}%",
        )
    console.print(table)


if __name__ == "__main__":
    main()
