"""Tables and a page of results."""

import io
import itertools
import json
import pathlib
import textwrap

import numpy as np
import pandas as pd

from keras_synth.compare.files import writing

CONFIDENCE = 0.95
ALL_PAIRS = 4  # variants; more are compared only with the reference
# Keys that are equal for all runs of a table.
SHARED = ("task", "settings", "data")
COSTS = {  # divisor, format and heading
    "steps_per_second": (1, ".2f", "steps/s"),
    "train_seconds": (1, ".0f", "training, s"),
    "parameters": (1e6, ".3f", "weights, 1e6"),
    "multiplications": (1e6, ".2f", "mult., 1e6"),
    "peak_memory_bytes": (2**20, ".0f", "peak, MiB"),
}
DRAWN = 10  # variants in a chart, by score
LINE, WIDTH = 24, 120  # letters of a name in a line, and of the legend
STYLES = {"jax": "-", "tensorflow": "--", "torch": ":"}


def read(folder):
    """Returns all results (dictionaries) in a folder, as they were ordered."""
    found = []
    for path in pathlib.Path(folder).glob("runs/[!.]*.json"):
        try:
            content = json.loads(path.read_text("utf-8"))
            content["result"]["score"], content["variant"]
            order = content["order"], path.stat().st_mtime, path.name
        except (ValueError, LookupError, TypeError) as error:
            raise ValueError(
                f"{path} is damaged. Remove it, and repeat the command with "
                f"--resume. Received: {error!r}"
            ) from error
        found.append((order, content))
    if not found:
        raise ValueError(f"There are no results in {folder}")
    return [content for _, content in sorted(found, key=lambda x: x[0])]


def report(folder):
    """Prints the tables of a folder's results, and writes its reports."""
    import jinja2

    folder = pathlib.Path(folder)
    groups = grouped(read(folder))
    sections = [section(group, groups) for group in groups]
    with writing(folder / "results.csv") as file:
        rows = pd.concat(map(frame, groups), ignore_index=True)
        rows.to_csv(file, index=False, lineterminator="\n")
    with writing(folder / "results.md") as file:
        file.write(
            "\n".join(
                f"{x['title']}\n\n{markdown(x['table'])}" for x in sections
            )
        )
    environment = jinja2.Environment(autoescape=True)
    environment.filters["html"] = lambda table, digits=2: table.to_html(
        index=False,
        border=0,
        classes="table",
        float_format=f"{{:.{digits}f}}".format,
        na_rep="",
    )
    source = pathlib.Path(__file__).with_name("report.html")
    template = environment.from_string(source.read_text("utf-8"))
    with writing(folder / "report.html") as file:
        file.write(template.render(groups=sections))
    for made in sections:
        print(f"\n{made['title']}\n")
        print(made["table"].to_string(index=False))
    print(f"\nresults.csv, results.md and report.html are in {folder}")


def section(group, groups):
    """Returns the template's data for the results of a table."""
    first = group[0]
    versions = [*dict.fromkeys(map(_versions, group))]
    signatures = dict.fromkeys(x["result"].get("signature") for x in group)
    return {
        "title": title(group, groups),
        "table": summary(group),
        "differences": differences(group),
        "digits": first["score"]["digits"],
        "mixed": len(versions) > len({x["backend"] for x in group}),
        "chart": chart(group),
        "versions": versions,
        "settings": first["settings"],
        "commands": [*dict.fromkeys(x["command"] for x in group)],
        "signatures": [*filter(None, signatures)],
    }


def title(group, groups):
    """The task, and the settings and data that differ from other tables."""
    first = group[0]
    own, *others = (
        {**x[0]["settings"], "data": x[0]["data"][:6]}
        for x in (group, *groups)
        if x[0]["task"] == first["task"]
    )
    words = ", ".join(
        f"{name}={value}"
        for name, value in own.items()
        if any(x.get(name) != value for x in others)
    )
    better = "" if first["score"]["higher_is_better"] else ", lower is better"
    return (
        f"{first['task']}: {first['score']['name']} on the test{better}"
        f"{f' ({words})' if words else ''}"
    )


def frame(results):
    """Returns one row for each run, a `pandas.DataFrame`."""
    rows = []
    for content in results:
        result, score = content["result"], content["score"]
        row = {x: content[x] for x in ("task", "variant", "backend", "seed")}
        row |= {k: x for k, x in result.items() if isinstance(x, (int, float))}
        row["score"] *= score["scale"]
        row["score_name"] = score["name"]
        row["validation"] = _validation(content)[1][-1]
        row["versions"] = _versions(content)
        rows.append(row)
    return pd.DataFrame(rows)


def grouped(results):
    """Returns the results of each table.

    Each variant and seed starts from its own preset. A second preset of the
    same begins another table. Variants of the same name with different code
    are told apart by it.
    """
    starts, groups, codes = {}, {}, {}
    for result in results:
        codes.setdefault(result["variant"], set()).add(result["code"])
    results = [
        {**result, "variant": f"{result['variant']}, code {result['code'][:6]}"}
        if len(codes[result["variant"]]) > 1 and result["code"]
        else result
        for result in results
    ]
    for result in results:
        shared = json.dumps([result[x] for x in SHARED], sort_keys=True)
        place = shared, result["variant"], result["seed"]
        known = starts.setdefault(place, {})
        number = known.setdefault(result["start"], len(known))
        groups.setdefault((shared, number), []).append(result)
    return [*groups.values()]


def _versions(content):
    return ", ".join(map(" ".join, content["versions"].items()))


def _validation(content):
    """The heading of the validation figure, and its values.

    They have the scale of the score if it is the same metric.
    """
    name, score = content["validation"], content["score"]
    heading, values = name, content["result"]["history"][f"val_{name}"]
    # The score of words is named "accuracy over words".
    if score["name"].startswith(name):
        heading = ", ".join(filter(None, (name, score["unit"])))
        values = [score["scale"] * x for x in values]
    return f"validation {heading}", values


def summary(results):
    """Returns a line for each variant and backend.

    `±` is the standard error of the mean over seeds. Runs of other versions
    have separate lines. The last line is a model that reads no text.
    """
    runs, score = frame(results), results[0]["score"]
    apart = ["variant", "backend"]
    if runs.groupby("backend")["versions"].nunique().max() > 1:
        apart.append("versions")
    digits = score["digits"]
    heading = ", ".join(filter(None, (score["name"], score["unit"])))
    validation, _ = _validation(results[0])
    lines = []
    for names, group in runs.groupby(apart, sort=False):
        line = {**dict(zip(apart, names, strict=True)), "seeds": len(group)}
        line[heading] = f"{_mean(group['score']):.{digits}f}"
        if len(group) > 1:
            error = group["score"].sem(skipna=False)
            line[heading] += f" ±{error:.{digits}f}"
        line[validation] = f"{group['validation'].mean():.4g}"
        for name, (unit, style, words) in COSTS.items():
            if name in group and group[name].notna().any():
                line[words] = format(group[name].mean() / unit, style)
        lines.append(line)
    baseline = results[0]["baseline"]
    if baseline:
        value = f"{score['scale'] * baseline['score']:.{digits}f}"
        lines.append({"variant": f"({baseline['name']})", heading: value})
    return pd.DataFrame(lines, dtype=object).fillna("")


def differences(results):
    """Returns differences of variants on each backend.

    Student's t-test is on the differences of common seeds. For other seeds it
    is Welch's t-test of two means.
    """
    runs, score = frame(results), results[0]["score"]
    lines = []
    for backend, group in runs.groupby("backend", sort=False):
        scores = {
            name: rows.groupby("seed")["score"].agg(_mean)
            for name, rows in group.groupby("variant", sort=False)
        }
        for one, other in _pairs([*scores]):
            gap, low, high = _interval(scores[one], scores[other])
            several = min(len(scores[one]), len(scores[other])) > 1
            if not np.isfinite(gap):
                verdict = "a score is not finite"
            elif np.isnan(low):
                verdict = (
                    "no interval: equal differences"
                    if several
                    else "too few seeds to say"
                )
            elif low <= 0 <= high:
                verdict = "no difference shown"
            else:
                first = (gap > 0) == score["higher_is_better"]
                verdict = f"{one if first else other} is better"
            lines.append(
                {
                    "backend": backend,
                    "variants": f"{one} against {other}",
                    "difference": gap,
                    "low": low,
                    "high": high,
                    "verdict": verdict,
                }
            )
    return pd.DataFrame(lines)


def _pairs(variants):
    reference = "V" if "V" in variants else variants[0]
    others = [x for x in variants if x != reference]
    if len(variants) <= ALL_PAIRS:
        return [*itertools.combinations([reference, *others], 2)]
    return [(name, reference) for name in others]


def _mean(scores):
    return scores.mean(skipna=False)


def _interval(one, other):
    """The difference of means, and its 95 % interval if possible."""
    from scipy import stats  # here, so that commands start faster

    gap = float(_mean(one) - _mean(other))
    paired = [*one.index] == [*other.index]
    spread = [np.ptp(one - other)] if paired else [np.ptp(one), np.ptp(other)]
    least = min(len(one), len(other))
    if least < 2 or not np.isfinite(gap) or max(spread) < 1e-12:
        return gap, np.nan, np.nan
    if paired:
        test = stats.ttest_rel(one, other)
    else:
        test = stats.ttest_ind(one, other, equal_var=False)
    low, high = test.confidence_interval(CONFIDENCE)
    return gap, float(low), float(high)


def markdown(table):
    """Returns a table in Markdown."""
    lines = [[*table.columns], ["---"] * table.shape[1]]
    lines += table.astype(str).to_numpy().tolist()
    cells = [[x.replace("|", "\\|") for x in line] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def chart(group):
    """Draws scores by run, losses by step, and figures by epoch, as SVG."""
    import matplotlib  # here, so that commands start faster
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    runs, score = frame(group), group[0]["score"]
    means = runs.groupby("variant", sort=False)["score"].mean()
    best = means.sort_values(ascending=not score["higher_is_better"])
    variants = [x for x in means.index if x in best.index[:DRAWN]]
    with matplotlib.rc_context(
        {"text.parse_math": False, "svg.hashsalt": "keras_synth"}
    ):
        figure = Figure((12, 4), layout="constrained")
        seeds, steps, epochs = figure.subplots(1, 3)
        for content in group:
            result, variant = content["result"], content["variant"]
            if variant not in variants:
                continue
            place = variants.index(variant)
            look = {"color": f"C{place}"}
            seeds.plot(
                score["scale"] * result["score"], place, "o", alpha=0.7, **look
            )
            look |= {"linestyle": STYLES[content["backend"]], "linewidth": 1.2}
            look |= {"label": f"{variant}, {content['backend']}"}
            steps.plot(*zip(*result["losses"], strict=True), **look)
            heading, values = _validation(content)
            epochs.plot(np.arange(len(values)) + 1, values, marker=".", **look)
        names = [textwrap.fill(x, LINE) for x in variants]
        seeds.set_yticks(range(len(variants)), names)
        seeds.invert_yaxis()
        seeds.set_xlabel(f"{score['name']} {score['unit']}".strip())
        steps.set_xlabel("step")
        steps.set_ylabel("training loss, mean of the epoch so far")
        epochs.set_xlabel("epoch")
        epochs.set_ylabel(heading)
        epochs.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        found = dict(zip(*steps.get_legend_handles_labels()[::-1], strict=True))
        figure.legend(
            found.values(),
            found.keys(),
            fontsize=8,
            loc="outside lower center",  # names can be long
            ncols=max(1, min(len(found), WIDTH // max(map(len, found)))),
        )
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True)
    return text.getvalue()[text.getvalue().index("<svg") :]
