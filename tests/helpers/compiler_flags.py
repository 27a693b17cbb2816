"""Sets flags of XLA for tests: imported before a backend is."""

import importlib.util
import mmap
import os
import pathlib

# Where the flags of a package's XLA are spelled.
LIBRARIES = {"jaxlib": "*jax_common.*", "tensorflow": "*tensorflow_framework.*"}
# Without fusion emitters XLA compiles in two thirds of the time, and in nine
# tenths of that where it does not cut programs into parts.
QUICKER = (
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
)


def is_known(flag):
    """Whether every installed XLA has a flag: unknown flags end a process."""
    # A string of its own: names of fields that are left remain in others.
    name = b"\0" + flag.split("=")[0].strip("-").encode() + b"\0"
    return all(
        any(holds(path, name) for path in folder.glob(LIBRARIES[package]))
        for package, folder in installed()
    )


def installed():
    for package in LIBRARIES:
        spec = importlib.util.find_spec(package)
        if spec is not None:
            yield package, pathlib.Path(spec.submodule_search_locations[0])


def holds(path, text):
    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        return content.find(text) >= 0


def flags():
    """Tests compile many small programs and run each of them once or twice."""
    chosen = ["--xla_backend_optimization_level=0"]
    chosen += filter(is_known, QUICKER)
    # Those that are given, such as --xla_cpu_max_isa=AVX2, count as well.
    return " ".join([*chosen, os.environ.get("XLA_FLAGS", "")])


os.environ["XLA_FLAGS"] = flags()
