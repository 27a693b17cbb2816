"""Results on disk, as tables: a line for each variant and backend."""

import itertools
import json
import pathlib

import numpy as np
import pandas as pd

from keras_synth._system.files import writing

CONFIDENCE = 0.95
ALL_PAIRS = 4  # variants; of more, each is compared with the reference
# What runs of a table have in common.
SHARED = ("task", "settings", "data", "start")


def read(folder):
    """Returns all results in a folder, dictionaries, oldest first.

    Raises:
        ValueError: If there are none, or a file is damaged.
    """
    found = []
    paths = [*pathlib.Path(folder).glob("runs/[!.]*.json")]
    for path in sorted(paths, key=lambda x: (x.stat().st_mtime, x.name)):
        try:
            content = json.loads(path.read_text("utf-8"))
            content["result"]["score"], content["variant"]
        except (ValueError, LookupError, TypeError) as error:
            raise ValueError(
                f"{path} is damaged. Remove it, and repeat the command with "
                f"--resume. Received: {error!r}"
            ) from error
        found.append(content)
    if not found:
        raise ValueError(f"There are no results in {folder}")
    return found


def tables(results):
    """Groups results that may stand in one table.

    Returns:
        List of lists of results.
    """
    groups: dict = {}
    for result in results:
        shared = json.dumps([result[x] for x in SHARED], sort_keys=True)
        groups.setdefault(shared, []).append(result)
    return [*groups.values()]


def frame(results):
    """One row for each run, a `pandas.DataFrame`."""
    rows = []
    for content in results:
        result, known = content["result"], content["score"]
        figures = {
            k: x for k, x in result.items() if isinstance(x, (int, float))
        }
        shared = {x: content[x] for x in ("task", "variant", "backend", "seed")}
        versions = ", ".join(map(" ".join, content["versions"].items()))
        history = result["history"]
        validation = history[validation_name(history)][-1]
        rows.append(
            {
                **shared,
                **figures,
                "score": known["scale"] * figures["score"],
                "score_name": known["name"],
                "validation": validation,
                "versions": versions,
            }
        )
    return pd.DataFrame(rows)


def validation_name(history):
    """The name of the figure of the validation, its loss if need be."""
    names = [x for x in history if x.startswith("val_")]
    return min(names, key=lambda x: x == "val_loss")


def summary(results):
    """A line for each variant and backend, a `pandas.DataFrame`.

    `±` is the standard error of the mean over seeds. Runs of other versions
    have lines of their own. The last line is a model that reads no text.
    """
    runs, score = frame(results), results[0]["score"]
    apart = ["variant", "backend"]
    if runs.groupby("backend")["versions"].nunique().max() > 1:
        apart.append("versions")
    digits = score["digits"]
    lines = []
    for names, group in runs.groupby(apart, sort=False):
        count = len(group)
        error = group["score"].std(ddof=1) / np.sqrt(count)
        mean = f"{group['score'].mean():.{digits}f}"
        line = dict(zip(apart, names, strict=True))
        line["seeds"] = count
        unit = f", {score['unit']}" if score["unit"] else ""
        heading = f"{score['name']}{unit}"
        line[heading] = mean if count == 1 else f"{mean} ±{error:.{digits}f}"
        line["validation"] = f"{group['validation'].mean():.4g}"
        for name, style in _COSTS.items():
            if name in group and group[name].notna().any():
                factor, text, words = style
                line[words] = format(group[name].mean() / factor, text)
        lines.append(line)
    baseline = results[0]["baseline"]
    if baseline:
        value = f"{score['scale'] * baseline['score']:.{digits}f}"
        lines.append({"variant": f"({baseline['name']})", heading: value})
    return pd.DataFrame(lines, dtype=object).fillna("")


_COSTS = {
    "steps_per_second": (1, ".2f", "steps/s"),
    "train_seconds": (1, ".0f", "training, s"),
    "parameters": (1e6, ".3f", "weights, 1e6"),
    "multiplications": (1e6, ".0f", "mult., 1e6"),
    "peak_memory_bytes": (2**20, ".0f", "peak, MiB"),
}


def differences(results):
    """Differences of variants on one backend, in words.

    Student's t on the differences of seeds that both variants have; Welch's
    of two means where they have other seeds.

    Returns:
        `pandas.DataFrame` with the columns `backend`, `variants`,
        `difference`, `low`, `high` and `verdict`.
    """
    runs, score = frame(results), results[0]["score"]
    lines = []
    for backend, group in runs.groupby("backend", sort=False):
        scores = {
            name: rows.groupby("seed")["score"].mean()
            for name, rows in group.groupby("variant", sort=False)
        }
        for one, other in _pairs([*scores]):
            gap, low, high = _interval(scores[one], scores[other])
            line = {"backend": backend, "variants": f"{one} against {other}"}
            line |= {"difference": gap, "low": low, "high": high}
            verdict = "too few seeds to say"
            if low is not None:
                verdict = "no difference shown"
                if low > 0 or high < 0:
                    better = (
                        one if (gap > 0) == score["higher_is_better"] else other
                    )
                    verdict = f"{better} is better"
            lines.append({**line, "verdict": verdict})
    return pd.DataFrame(lines)


def _pairs(variants):
    reference = "V" if "V" in variants else variants[0]
    others = [x for x in variants if x != reference]
    if len(variants) <= ALL_PAIRS:
        return [*itertools.combinations([reference, *others], 2)]
    return [(name, reference) for name in others]


def _interval(one, other):
    """The difference of means, and its 95 % interval where there is one."""
    from scipy import stats  # commands start faster

    gap = float(one.mean() - other.mean())
    paired = [*one.index] == [*other.index]
    spread = [np.ptp(one - other)] if paired else [np.ptp(one), np.ptp(other)]
    least = min(len(one), len(other))
    if least < 2 or not np.isfinite(gap) or max(spread) < 1e-12:
        return gap, None, None
    if paired:
        test = stats.ttest_rel(one, other)
    else:
        test = stats.ttest_ind(one, other, equal_var=False)
    low, high = test.confidence_interval(CONFIDENCE)
    return gap, float(low), float(high)


def markdown(table):
    """A table in Markdown."""
    lines = [[*table.columns], ["---"] * table.shape[1]]
    lines += table.astype(str).to_numpy().tolist()
    cells = [[x.replace("|", "\\|") for x in line] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def write_tables(groups, folder):
    """Writes `results.csv`, a line a run, and `results.md`."""
    runs = pd.concat(map(frame, groups), ignore_index=True)
    with writing(folder / "results.csv") as file:
        runs.to_csv(file, index=False, lineterminator="\n")
    with writing(folder / "results.md") as file:
        file.write("\n".join(markdown(summary(x)) for x in groups))
