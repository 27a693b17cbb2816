"""The most memory that this process has taken."""

import sys

try:
    import resource
except ImportError:  # Windows has none
    resource = None

STATUS = "/proc/self/status"


def peak_memory():
    """Returns the largest resident set so far, in bytes, or `None`.

    Where Linux reports this process alone, that counts: what `getrusage` says
    there begins with the process that started this one.
    """
    return status("VmHWM") or _from_usage()


def status(field):
    """Returns a field of Linux' `/proc/self/status` in bytes, or `None`."""
    try:
        with open(STATUS, encoding="utf-8") as lines:
            for line in lines:
                if line.startswith(f"{field}:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def _from_usage():
    if resource is None:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
