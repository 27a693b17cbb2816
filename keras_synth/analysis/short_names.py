"""Names of layers, without what all of them have in common."""


def shortened(names):
    """What names do not have in common: of `layer_0/a` and `layer_1/a` 0, 1."""
    names = [*names]
    start, end = _ends(names)
    cut = [name[len(start) : len(name) - len(end)] for name in names]
    return cut if all(cut) else names


def common_part(names):
    """What names have in common: `layer_.../a`."""
    return "...".join(_ends([*names])).strip("./ ") or None


def _ends(names):
    """What all names start and end with, whole numbers."""
    if len(names) < 2:
        return "", ""
    start = _common(names).rstrip("0123456789")
    rest = [name[len(start) :][::-1] for name in names]
    end = _common(rest)[::-1].lstrip("0123456789")
    return start, end


def _common(names):
    """What all names start with."""
    start = min(names)
    while not all(name.startswith(start) for name in names):
        start = start[:-1]
    return start
