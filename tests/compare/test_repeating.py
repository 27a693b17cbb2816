"""The command in a report makes the same runs again."""

import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from result_rows import row

from keras_synth.commands import compare
from keras_synth.compare import grid, options, repeating, tasks

pytestmark = pytest.mark.once  # nothing here depends on the backend


def parsed(words):
    """What a command line means: settings, runs and source."""
    found = compare.parser().parse_args(words)
    chosen = options.settings_of(found)
    runs = grid.runs(
        found.variants,
        found.num_heads,
        found.seeds,
        found.backends,
        chosen,
        tasks.TASKS[chosen.task].objective.needs,
    )
    beside = options.beside_settings(found)
    return chosen, runs, options.source_of(found), beside


@pytest.mark.parametrize(
    "arguments",
    [
        "--task pairs --variants V R --seeds 0 1",
        "--task reviews --lengths --epochs 7 --learning-rate 0.003",
        "--task reviews --sequence-length 40",
        "--task rt_polarity --data x --sequence-length 32 --dropout 0",
        "--task rt_polarity --data x --lengths 16 24 --num-heads 2 4",
        "--task multi30k --data 'a b/task1' --label-smoothing 0.1",
        "--task csv --data x.csv --text a b --label c --delimiter ;",
        "--task csv --data x.csv --no-header --text 0 --label 1 --skip-empty",
        "--task csv --data x.tsv --test-data y.tsv --no-quotes",
        "--task text --data x --variants 'FR(rank=32) + V' R --rank 4",
        "--task pairs --callbacks mine:watch --dtype-policy mixed_bfloat16",
    ],
)
def test_the_command_means_what_the_first_one_meant(arguments):
    words = [*shlex.split(arguments), "--backends", "torch", "jax"]
    chosen, runs, source, beside = parsed(words)
    found = []
    for run in runs:
        made = row(task=chosen.task, options=beside)
        made["key"].update(settings=chosen.to_json(), **run._asdict())
        found.append(made)
    again = repeating.command(found)
    assert again[:2] == ["keras-synth", "compare"]
    assert parsed(again[2:]) == (chosen, runs, source, beside)


def test_what_older_results_do_not_say_has_a_placeholder():
    words = repeating.command([row(task="imdb")])
    assert words[words.index("--data") + 1] == repeating.PLACEHOLDER
    assert "--data" not in repeating.command([row(task="pairs")])


@pytest.mark.parametrize("options", [None, 3, ["data"], "data"])
def test_options_of_another_kind_are_left_out(options):
    assert "--data" not in repeating.command([row(options=options)])


# What can stand on a command line.
CHARACTERS = st.characters(exclude_characters="\0", exclude_categories=["Cs"])


@settings(deadline=None, max_examples=50)
@given(st.lists(st.text(CHARACTERS, min_size=1)))
def test_lines_are_read_by_a_shell_as_the_words(words):
    text = repeating.in_lines(["x", *words], width=20)
    # Not `shlex.split`, to which a backslash does not join lines.
    printed = ["sh", "-c", f"printf '%s\\0' {text}"]
    found = subprocess.run(printed, capture_output=True, check=True).stdout
    assert found.decode().split("\0")[:-1] == ["x", *words]
