"""Pretrained presets: `--init FOLDER`.

A folder is a preset, or the `--output` of `keras-synth train` or of a
comparison that saved a preset for each variant.
"""

import json
import pathlib

import keras_synth  # its models need seconds for their import, at first use
from keras_synth.compare.files import digest_of_files

CONFIG, TOKENIZER = "config.json", "assets"
FILES = (CONFIG, "model.weights.h5", TOKENIZER)
SIZES = (
    "num_layers",
    "num_heads",
    "hidden_dim",
    "intermediate_dim",
    "vocabulary_size",
)


def presets(init):
    """Returns the folders of the presets in a folder, at least one."""
    folder = pathlib.Path(init)
    for preset in (folder, folder / "preset"):
        if (preset / CONFIG).is_file():
            return [preset]
    found = sorted(x.parent for x in folder.glob(f"presets/[!.]*/{CONFIG}"))
    if not found:
        raise ValueError(
            "--init must be a preset, or the --output of `keras-synth train` "
            "or of a comparison with --task masked_lm or span_corruption. "
            f"Received: --init {init}"
        )
    return found


def config(preset):
    """Returns the config of a preset's backbone, one of this package."""
    found = json.loads((preset / CONFIG).read_text("utf-8"))["config"]
    if "synthesizer" not in found:
        raise ValueError(
            "--init must have backbones of keras_synth. Received: "
            f"--init {preset} without a synthesizer"
        )
    return found


def sizes(init, given):
    """Returns the settings of all presets, with which `given` ones agree."""
    found = [{x: config(preset)[x] for x in SIZES} for preset in presets(init)]
    if any(x != found[0] for x in found):
        raise ValueError(
            "The presets of --init must have the same size. Pass one of them. "
            f"Received: --init {init} with {found}"
        )
    for name in SIZES:
        if given.get(name, found[0][name]) != found[0][name]:
            flag = f"--{name.replace('_', '-')}"
            raise ValueError(
                f"The presets of --init determine {flag}, which is "
                f"{found[0][name]}. Leave it out. Received: {flag} "
                f"{given[name]}"
            )
    return found[0]


def preset_of(init, variant, seed):
    """Returns the preset for a variant, of the same seed if possible."""
    found = [x for x in presets(init) if _fits(config(x), variant)]
    if not found:
        raise ValueError(
            "--init must have a preset of each variant, trained with it. "
            f"Received: {variant!r} and --init {init}"
        )
    same = [x for x in found if f"-seed{seed}-" in x.name]
    return (same or found)[0]


def check(init, variants, seeds, settings):
    """Returns the digests of presets by `(variant, seed)`.

    It raises unless there are presets for all, with the same vocabulary.
    `variants` has their names for `get`.
    """
    vocabularies, digests = set(), {}
    for variant, name in variants.items():
        for seed in seeds:
            preset = preset_of(init, name, seed)
            longest = config(preset)["max_sequence_length"]
            if settings["sequence_length"] > longest:
                raise ValueError(
                    f"--sequence-length must be at most {longest}, the limit "
                    f"of {preset}. Received: {settings['sequence_length']}"
                )
            vocabularies.add(digest_of_files([preset / TOKENIZER]))
            digests[variant, seed] = digest_of_files(preset / x for x in FILES)
    if len(vocabularies) > 1:
        raise ValueError(
            "All presets must have the same vocabulary, because all runs read "
            f"the same tokens. Received: --init {init}"
        )
    return digests


def _fits(known, variant):
    """Whether a backbone's config has the synthesizer of this name."""
    import keras

    heads, width = known["num_heads"], known["hidden_dim"]

    def config_of(identifier):
        mixer = keras_synth.mixers.get(
            identifier,
            num_heads=heads,
            key_dim=known.get("key_dim") or width // heads,
            max_length=known["max_sequence_length"],
        )
        return keras.saving.serialize_keras_object(mixer)

    other = config_of(variant)
    try:
        one = config_of(known["synthesizer"])
    except (ValueError, TypeError):
        return False  # it has a class that only another variant registers
    names = "name", "dtype", "module", "registered_name"
    return _without(one, *names) == _without(other, *names)


def _without(config, *names):
    """Returns a config without some keys, at any depth."""

    def keep(known):
        return {k: x for k, x in known.items() if k not in names}

    return json.loads(json.dumps(config), object_hook=keep)


def tokenizer(cls, init):
    """Returns the tokenizer of the presets in a folder, of a class."""
    preset = presets(init)[0]
    found = cls.from_preset(str(preset))
    if not isinstance(found, cls):
        raise ValueError(
            f"This task needs a preset with a {cls.__name__}. Received: "
            f"{preset} with a {type(found).__name__}"
        )
    return found


def backbone(cls, variant, seed, settings, **changes):
    """Returns a preset's backbone, with its weights or random ones."""
    preset = preset_of(settings["init"], variant, seed)
    known = {k: x for k, x in config(preset).items() if k != "dtype"}
    known["synthesizer"] = _without(known["synthesizer"], "dtype")  # the run's
    model = cls.from_config(
        {**known, "dropout": settings["dropout"], **changes}
    )
    if settings["init_weights"] == "pretrained":
        source = cls.from_preset(str(preset))
        keras_synth.models.copy_weights(source, model)
    return model
