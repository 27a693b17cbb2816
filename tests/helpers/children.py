"""Children of this process, which end as a test wants them to.

They do nothing but look at files: what a backend computes with may not
outlive `os.fork`.
"""

import os
import signal
import traceback

from keras_synth._system import processes


def child(work):
    """Runs a function in a child; returns its process id."""
    number = os.fork()
    if not number:
        status = 70
        try:
            status = work() or 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return number


def status(number):
    """Waits for a child; returns its status, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def die():
    """Ends this process as if the power had gone."""
    os.kill(os.getpid(), signal.SIGKILL)


def ended():
    """The identity of a process that has ended."""
    reads, writes = os.pipe()
    number = child(lambda: os.write(writes, processes.identity().encode()) * 0)
    os.close(writes)
    with os.fdopen(reads) as told:
        owner = told.read()
    assert status(number) == 0
    return owner
