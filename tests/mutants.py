"""One-line faults, each of which the tests must notice.

`python tests/mutants.py` puts each into a copy of the repository and runs the
tests of its folder, then those of the core, until one fails. It exits with 1 if
a fault survives, or if its line is not there any more. `--only 3 7` runs some.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
TESTS = (
    "test_formulas.py",
    "mixers/test_random_cases.py",
    "mixers/test_mixer_contract.py",
    "attention",
    "mixers",
    "synthesizers",
    "layers",
    "design",
    "folding",
    "_backend",
    "test_registry.py",
    "test_identifiers.py",
)
LIMIT = 1800  # seconds for one fault


class Mutant(NamedTuple):
    """A fault: in `file`, the only occurrence of `old` becomes `new`."""

    file: str
    old: str
    new: str
    why: str


MUTANTS = [
    # --- softmax, masks -------------------------------------------------------
    Mutant(
        "attention/normalizers.py",
        "return ops.where(allowed, weights, 0.0)",
        "return weights",
        "a row that sees nothing attends evenly",
    ),
    Mutant(
        "attention/softmax.py",
        "LEAST_BIAS = -1e30",
        "LEAST_BIAS = -3e38",
        "a bias undoes the masks",
    ),
    Mutant(
        "attention/softmax.py",
        "if mask.shape[-2] != 1:",
        "if mask.shape[-1] == 1:",
        "masks of pairs are bounded, not selected: NaN remains",
    ),
    Mutant(
        "attention/masks.py",
        "allowed = [distance >= 0] if self.causal else []",
        "allowed = [distance >= -1] if self.causal else []",
        "a causal mask shows the next token",
    ),
    Mutant(
        "attention/masks.py",
        "near < self.window",
        "near <= self.window",
        "a sliding window sees one token more",
    ),
    Mutant(
        "attention/masks.py",
        "indices(target_length) + self.start,",
        "indices(target_length),",
        "a chunk's first position is dropped",
    ),
    Mutant(
        "attention/masks.py",
        "return self._replace(pairs=self.pairs[:, heads])",
        "return self",
        "groups of heads see the first group's mask",
    ),
    Mutant(
        "attention/masks.py",
        "return ops.where(allowed, bias, zero)",
        "return bias",
        "NaN in padded columns of a bias reaches the output",
    ),
    Mutant(
        "attention/masks.py",
        "allowed = ops.all(allowed, axis=0, keepdims=True)",
        "allowed = ops.any(allowed, axis=0, keepdims=True)",
        "one bias for unequal padding keeps its NaN",
    ),
    Mutant(
        "attention/masks.py",
        "return ops.where(visible, context, constant(0.0, context))",
        "return context",
        "rows that see nothing are not zero",
    ),
    Mutant(
        "attention/masks.py",
        "return zero_nonfinite_padding(query, mask.queries), value, key",
        "return query, value, key",
        "NaN of padded queries reaches the weights' gradients",
    ),
    # --- logits, normalizers --------------------------------------------------
    Mutant(
        "attention/logits.py",
        "queries = queries * ops.cast(alpha, queries.dtype)[:, None]",
        "queries = queries * ops.cast(alpha, queries.dtype)[0]",
        "all heads take the first head's alpha",
    ),
    Mutant(
        "attention/logits.py",
        "return float32(a) + float32(b)",
        "return a + ops.cast(b, a.dtype)",
        "ALiBi is rounded to half precision in a sum",
    ),
    Mutant(
        "attention/logits.py",
        "self.needs_float32 or other.needs_float32,",
        "self.needs_float32,",
        "a sum forgets that its second part needs float32",
    ),
    Mutant(
        "attention/softmax.py",
        "zeros = ops.zeros_like(scores[..., :1])",
        "zeros = ops.ones_like(scores[..., :1])",
        "the additional logit of softmax1 is not zero",
    ),
    Mutant(
        "attention/normalizers.py",
        "return ops.sigmoid(logits - ops.log(count))",
        "return ops.sigmoid(logits) / count",
        "sigmoid is divided by n instead of shifted by log n",
    ),
    # --- routes ---------------------------------------------------------------
    Mutant(
        "attention/routes/explicit.py",
        "kept = cast_like(kept, values)",
        "kept = cast_like(weights, values)",
        "dropout of weights has no effect",
    ),
    Mutant(
        "attention/routes/shared.py",
        "LEAST_WEIGHT = 1e-33",
        "LEAST_WEIGHT = 1e-20",
        "rows whose visible keys have little weight are wrong",
    ),
    Mutant(
        "attention/routes/shared.py",
        "weights = weights * ops.cast(pairs, weights.dtype)",
        "pass",
        "the bound revives what a causal mask forbids",
    ),
    Mutant(
        "attention/routes/shared.py",
        "total = ops.where(total > 0, total, 1.0)",
        "total = total + 0.0",
        "rows of a table that see nothing are not zero",
    ),
    Mutant(
        "attention/routes/shared.py",
        "or isinstance(request.normalizer, Sigmoid)",
        "",
        "sigmoid's n is the same for samples of unequal padding",
    ),
    Mutant(
        "attention/routes/shared.py",
        "total = total if sink is None else total + sink[..., None]",
        "total = total",
        "softmax1 with padding forgets its sink",
    ),
    Mutant(
        "attention/routes/shared.py",
        "scale = ops.stop_gradient(ops.reciprocal(total))",
        "scale = ops.ones_like(total)",
        "gradients of rows with little weight overflow",
    ),
    Mutant(
        "attention/routes/tile.py",
        "return softmax(ops.concatenate(totals, axis=-1))",
        "return softmax(0.0 * ops.concatenate(totals, axis=-1))",
        "several tiles have equal weights",
    ),
    Mutant(
        "attention/routes/tile.py",
        "totals.append(ops.zeros_like(totals[0]))",
        "totals.append(ops.ones_like(totals[0]))",
        "a sink of several tiles has another logit",
    ),
    Mutant(
        "attention/routes/tile.py",
        "return ops.where(visible, context, ops.zeros((), context.dtype))",
        "return context",
        "rows of a tile that see nothing are not zero",
    ),
    Mutant(
        "attention/routes/tiles.py",
        "(slice(first, stop), slice(mask.start + stop))",
        "(slice(first, stop), slice(stop))",
        "a causal chunk loses the columns before it",
    ),
    Mutant(
        "attention/routes/tiles.py",
        "rows = 0 if request.mask.causal else _rows_that_see_all(request)",
        "rows = 0",
        "global tokens do not see all",
    ),
    Mutant(
        "attention/routes/torch_cpu.py",
        "grad_logits.sub_(row_dot[b, heads, rows]).mul_(weights)",
        "grad_logits.mul_(weights)",
        "the softmax's gradient lacks its mean",
    ),
    Mutant(
        "attention/routes/torch_cpu.py",
        "seen = self.mask.start + stop if self.mask.causal else columns",
        "seen = stop if self.mask.causal else columns",
        "a causal chunk loses the columns before it on PyTorch",
    ),
    Mutant(
        "attention/routes/torch_cpu.py",
        "first = min(self.mask.start + rows.start, columns.stop)",
        "first = min(rows.start, columns.stop)",
        "the corner of a causal mask is shifted on PyTorch",
    ),
    # --- patterns -------------------------------------------------------------
    Mutant(
        "attention/patterns/of_blocks.py",
        "rng = np.random.default_rng(self.seed)",
        "rng = np.random.default_rng(0)",
        "random blocks ignore their seed",
    ),
    Mutant(
        "attention/patterns/of_blocks.py",
        "order = order[~np.asarray(seen)]",
        "order = order",
        "random blocks are drawn among blocks that are seen already",
    ),
    # --- synthesizers ---------------------------------------------------------
    Mutant(
        "synthesizers/random.py",
        "rows = self.window(self._table(), 1, start, target_length)",
        "rows = self.window(self._table(), 1, 0, target_length)",
        "decoding reads the table's first rows",
    ),
    Mutant(
        "synthesizers/random.py",
        "trainable=not self.fixed,",
        "trainable=True,",
        "Fixed Random is trained",
    ),
    Mutant(
        "synthesizers/random.py",
        "((INITIAL_STDDEV / self.gain) ** 2 / self.rank) ** 0.25,",
        "INITIAL_STDDEV / self.gain,",
        "the start of FR depends on its rank",
    ),
    Mutant(
        "synthesizers/dense.py",
        "kernel = self.window(self.W_a, 2, 0, source_length)",
        "kernel = self.window(self.W_a, 2, start, source_length)",
        "the linear form reads its table at the wrong columns",
    ),
    Mutant(
        "synthesizers/mixture.py",
        "for i, x in enumerate(self.synthesizers) if not x.is_bias]",
        "for i, x in enumerate(self.synthesizers) if x.key_dim]",
        "alphas weigh only parts with keys",
    ),
    Mutant(
        "synthesizers/mixture.py",
        "first += part.key_dim",
        "first += 0",
        "the second part of a sum reads the first one's keys",
    ),
    Mutant(
        "synthesizers/relative.py",
        "places = ops.clip(distances, -most, most) + most",
        "places = ops.clip(-distances, -most, most) + most",
        "before and after are exchanged",
    ),
    Mutant(
        "synthesizers/relative.py",
        "far = ops.minimum(far, buckets - 1)",
        "far = ops.minimum(far, buckets - 2)",
        "T5's last bucket is never used",
    ),
    Mutant(
        "synthesizers/hand_made.py",
        "return -ops.square(away / self.stddev) / 2.0",
        "return -ops.square(away / self.stddev)",
        "the Gaussian is too narrow",
    ),
    # --- mixers ---------------------------------------------------------------
    Mutant(
        "mixers/kernel_sums.py",
        "return places[:, None] >= places",
        "return places[:, None] > places",
        "causal linear attention does not see the token itself",
    ),
    Mutant(
        "mixers/kernel_sums.py",
        'x["sums"] * _factor(x["logs"] - logs)',
        'x["sums"]',
        "states of unequal scale are added unweighed",
    ),
    Mutant(
        "mixers/longformer.py",
        "masks.AttentionMask(keys=real, causal=mask.causal),",
        "masks.AttentionMask(keys=real),",
        "global tokens see the future",
    ),
    Mutant(
        "mixers/longformer.py",
        "is_global = (at < self.global_tokens)[None, :, None, None]",
        "is_global = (at <= self.global_tokens)[None, :, None, None]",
        "one token too many is decoded as global",
    ),
    Mutant(
        "mixers/neighbours.py",
        'around = ops.cast(around, "float32")',
        "around = around",
        "pooling sums in half precision",
    ),
    Mutant(
        "mixers/compressed.py",
        "real = ops.any(self._windows(real) > 0, axis=(2, 3))  # (B, M)",
        "real = ops.all(self._windows(real) > 0, axis=(2, 3))  # (B, M)",
        "windows with some padding are not seen",
    ),
    Mutant(
        "mixers/last_tokens.py",
        'same = ops.cast(ops.logical_and(same, wanted[:, None] >= 0), "int32")',
        'same = ops.cast(same, "int32")',
        "places before the first token count as tokens",
    ),
    Mutant(
        "mixers/last_tokens.py",
        "positions = ops.where(mask.keys, positions, -1)",
        "positions = positions",
        "padding is remembered as tokens",
    ),
    Mutant(
        "mixers/multi_head.py",
        "        weights = masks.zero_padding(weights, mask.queries)\n",
        "",
        "scores of rows that the query mask hides are not zero",
    ),
    # --- layers and models ----------------------------------------------------
    Mutant(
        "attention/logits.py",
        "        return sum_of(float32(product), self.bias)",
        "        return _sum(product, self.bias)",
        "the softmax of V is in half precision",
    ),
    Mutant(
        "attention/patterns/regular.py",
        "return self.size if self.dilation == 1 else None",
        "return self.size - 1 if self.dilation == 1 else None",
        "a pattern's reach is one token short",
    ),
    Mutant(
        "layers/residual.py",
        "            y = self._dropout(y, training=True)\n        x = x + y",
        "            x, y = self._dropout(x + y, training=True), 0.0\n"
        "        x = x + y",
        "dropout drops the residual, too",
    ),
    Mutant(
        "models/tasks/text_classifier.py",
        'total = ops.sum(ops.where(real, ops.cast(x, "float32"), 0.0), axis=1)',
        "total = ops.sum(ops.where(real, x, 0.0), axis=1)",
        "a classifier's mean is summed in half precision",
    ),
    Mutant(
        "models/tasks/text_classifier.py",
        'ops.where(real, ops.cast(x, "float32"), 0.0)',
        'ops.cast(x, "float32")',
        "a classifier's mean counts padding",
    ),
    Mutant(
        "models/tasks/generation.py",
        "return ops.cumsum(stops, axis=-1) - stops > 0",
        "return ops.cumsum(stops, axis=-1) > 0",
        "the stop token is masked with what follows it",
    ),
    Mutant(
        "models/tasks/generation.py",
        "ops.logical_and(stops, ops.logical_not(prompt_mask))",
        "stops",
        "a stop token of the prompt ends the text",
    ),
    Mutant(
        "models/tasks/generation.py",
        "step(last, caches, index - 1)",
        "step(last, caches, index)",
        "generated tokens have the next one's position",
    ),
    Mutant(
        "training/losses.py",
        "loss = loss - (1 - self.label_smoothing) * chosen",
        "loss = loss - chosen",
        "smoothed labels sum to more than 1",
    ),
]


def check_lines() -> list[str]:
    """Returns errors of the list: lines that do not occur exactly once."""
    wrong = []
    for i, mutant in enumerate(MUTANTS):
        text = (ROOT / "keras_synth" / mutant.file).read_text(encoding="utf-8")
        count = text.count(mutant.old)
        if count != 1:
            wrong.append(f"{i}: {count} times in {mutant.file}: {mutant.old}")
    return wrong


def is_killed(tree: pathlib.Path, mutant: Mutant) -> str | None:
    """Returns the test that notices a fault, or `None`."""
    path = tree / "keras_synth" / mutant.file
    original = path.read_text(encoding="utf-8")
    path.write_text(original.replace(mutant.old, mutant.new), encoding="utf-8")
    nearest = mutant.file.split("/")[0]
    tests = dict.fromkeys((nearest, *TESTS))
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q"]
    command += ["-p", "no:cacheprovider", "--tb=no"]
    command += [f"tests/{name}" for name in tests]
    environment = {
        "KERAS_BACKEND": "torch",
        "OMP_NUM_THREADS": "1",
        **os.environ,
        "PYTHONPATH": str(tree),
    }
    try:
        done = subprocess.run(
            command,
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired:
        return f"no end after {LIMIT} s"
    finally:
        path.write_text(original, encoding="utf-8")
    if done.returncode == 0:
        return None
    lines = done.stdout.splitlines()
    failed = [x for x in lines if x.startswith(("FAILED", "ERROR"))]
    return failed[0] if failed else lines[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of faults")
    args = parser.parse_args()
    wrong = check_lines()
    if wrong:
        print(*wrong, sep="\n")
        return 1
    chosen = args.only or range(len(MUTANTS))
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder) / "tree"
        ignored = shutil.ignore_patterns(".git", ".venv", "site", "__pycache__")
        shutil.copytree(ROOT, tree, ignore=ignored)
        for i in chosen:
            start = time.perf_counter()
            killer = is_killed(tree, MUTANTS[i])
            survivors += killer is None
            seconds = time.perf_counter() - start
            said = killer or f"SURVIVES: {MUTANTS[i].why}"
            print(f"{i:3} {seconds:5.0f} s  {said}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} faults noticed")
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())
