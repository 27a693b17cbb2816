"""Pre-trained presets to start from: `--init FOLDER`.

A folder is a preset, the output of `train` with one in it, or that of a
comparison that pre-trained one for each variant.
"""

import json
import pathlib

import keras_synth  # what needs Keras is imported when first asked for
from keras_synth._system.files import is_partial
from keras_synth.compare import grid

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.weights.h5", "assets"
# Settings that a preset has made up its mind about.
SHAPE = ("num_layers", "hidden_dim", "intermediate_dim")


def presets(init):
    """The folders of the presets in a folder, sorted.

    Raises:
        ValueError: There is none, or one without weights.
    """
    folder = pathlib.Path(init)
    alone = (folder, folder / "preset")  # itself, or what was trained there
    found = [path for path in alone if (path / CONFIG).is_file()][:1]
    found = found or sorted(
        path.parent
        for path in folder.glob(f"presets/*/{CONFIG}")
        if not is_partial(path.parent)
    )
    if not found:
        raise ValueError(
            f"--init must name a preset ({CONFIG}, {WEIGHTS} and a tokenizer), "
            "or the --output of `train`, or of a comparison with --task mlm, "
            "mlm_words, mlm_bytes or span_corruption that has ended. Received: "
            f"--init {init}"
        )
    for preset in found:
        if not (preset / WEIGHTS).is_file():
            raise ValueError(
                f"{preset} has no {WEIGHTS}. Name a preset with weights, as "
                f"save_to_preset writes it. Received: --init {init}"
            )
    return found


def shape(init, given):
    """The settings that presets decide.

    Args:
        init: What `--init` says.
        given: Dictionary of the settings of the command line.

    Raises:
        ValueError: Presets differ, or `given` says something else.
    """
    found = presets(init)
    shapes = [{x: config(preset)[x] for x in SHAPE} for preset in found]
    for preset, other in zip(found, shapes, strict=True):
        if other != shapes[0]:
            raise ValueError(
                "The presets of a comparison must be of one size. Name one of "
                f"them. Received: {found[0]} with {shapes[0]}, {preset} with "
                f"{other}"
            )
    for name, value in shapes[0].items():
        if name in given and given[name] != value:
            option = f"--{name.replace('_', '-')}"
            raise ValueError(
                f"{found[0]} has {option} {value}. Leave the option out. "
                f"Received: {option} {given[name]}"
            )
    return shapes[0]


def config(preset):
    """The config of a preset's backbone."""
    return _json(preset)["config"]


def _json(preset):
    return json.loads((preset / CONFIG).read_text(encoding="utf-8"))


def check(settings, runs, backbone):
    """Raises unless there is a preset for each run, all of one vocabulary.

    Args:
        settings: `Settings` with an `init`.
        runs: List of `Run`.
        backbone: String, the class that the task needs.
    """
    chosen = list(dict.fromkeys(find(settings, run) for run in runs))
    for preset in chosen:
        kind, length = _json(preset)["class_name"], settings.sequence_length
        if kind != backbone or config(preset).get("causal"):
            raise ValueError(
                f"The task {settings.task!r} starts from a {backbone} that is "
                f"not causal. Name another preset. Received: {preset} with a "
                f"{kind}"
            )
        if length > config(preset)["max_sequence_length"]:
            raise ValueError(
                "--sequence-length must be at most "
                f"{config(preset)['max_sequence_length']}, the longest input "
                f"of {preset}. Received: --sequence-length {length}"
            )
        if _vocabulary(preset) != _vocabulary(chosen[0]):
            raise ValueError(
                "All presets must have the same vocabulary, since all runs "
                "read the same tokens. Compare them one at a time. Received: "
                f"{chosen[0]} and {preset}"
            )


def _vocabulary(preset):
    files = sorted((preset / TOKENIZER).rglob("*"))
    return [(x.name, x.read_bytes()) for x in files if x.is_file()]


def find(settings, run):
    """The preset that a run of `Settings` with an `init` starts from.

    Raises:
        ValueError: There is none for its variant and heads, or several.
    """
    init = settings.init
    found = presets(init)
    if found[0].parent.name != "presets" or found[0] == pathlib.Path(init):
        _check_variant(found[0], run, settings.rank)
        return found[0]
    start = f"{run.variant}-{run.num_heads}-"
    chosen = [x for x in found if x.name.startswith(start)]
    if len(chosen) != 1:
        names = "\n  ".join(str(x) for x in found)
        raise ValueError(
            f"{len(chosen)} presets in {init} are of {run.variant} with "
            f"{run.num_heads} heads, expected one. Pre-train it, change "
            f"--variants or --num-heads, or name one of\n  {names}"
        )
    return chosen[0]


def _check_variant(preset, run, rank):
    """Raises unless a preset's blocks are what a variant's name stands for."""
    known = config(preset)
    heads, length = known["num_heads"], known["max_sequence_length"]
    key_dim = known["key_dim"] or known["hidden_dim"] // heads
    wanted = grid.synthesizer(run.variant, heads, key_dim, length, rank)
    forms = [
        {"num_heads": count, **_form(x, heads, key_dim, length)}
        for x, count in ((known["synthesizer"], heads), (wanted, run.num_heads))
    ]
    if forms[0] != forms[1]:
        name, *values = _difference(*forms)
        raise ValueError(
            f"{preset} has other attention than {run.variant} with "
            f"{run.num_heads} heads. Pass its own with --variants and "
            f"--num-heads. Received: a preset with {name} {values[0]!r}, not "
            f"{values[1]!r}"
        )


def _difference(one, other):
    """Name and values of the first option in which two configs differ."""
    for name, value in one.items():
        against = other.get(name)
        if value == against:
            continue
        if isinstance(value, list) and isinstance(against, list):
            value, against = (dict(enumerate(x)) for x in (value, against))
        if isinstance(value, dict) and isinstance(against, dict):
            return _difference(value, against)
        return name, value, against
    return next((x, None, other[x]) for x in other if x not in one)


def _form(identifier, *sizes):
    """What tells a mixer from others: its config, without names and dtypes.

    Class names tell what modules do.
    """
    import keras  # with the models

    mixer = keras_synth.mixers.get(identifier, *sizes)
    return _without(
        keras.saving.serialize_keras_object(mixer),
        ("name", "dtype", "module", "registered_name"),
    )


def _without(config, names):
    if isinstance(config, dict):
        kept = {x: y for x, y in config.items() if x not in names}
        return {x: _without(y, names) for x, y in kept.items()}
    if isinstance(config, (list, tuple)):
        return [_without(x, names) for x in config]
    return config


def tokenizer(cls, init):
    """The tokenizer of the presets in a folder.

    Args:
        cls: Class of KerasHub's, what the task needs.
        init: What `--init` says.

    Raises:
        ValueError: It is of another class.
    """
    preset = presets(init)[0]
    found = cls.from_preset(preset)
    if type(found) is not cls:
        raise ValueError(
            f"The task needs a preset with a {cls.__name__}. Name another one, "
            f"or leave --init out. Received: {preset} with a "
            f"{type(found).__name__}"
        )
    return found


def backbone(cls, settings, run, **changes):
    """A preset's backbone, its weights pre-trained or as at the beginning.

    Args:
        cls: `SynthesizerBackbone` or `SynthesizerSeq2SeqBackbone`.
        settings: `Settings` with an `init`.
        run: `Run`.
        **changes: Arguments of the backbone that differ from the preset's.
    """
    preset = find(settings, run)
    known = {x: y for x, y in config(preset).items() if x != "dtype"}
    # Dtypes are those of the run, not of pre-training.
    known["synthesizer"] = _without(known["synthesizer"], ("dtype",))
    made = cls.from_config({**known, "dropout": settings.dropout, **changes})
    if settings.init_weights == "pretrained":
        keras_synth.models.copy_weights(cls.from_preset(preset), made)
    return made
