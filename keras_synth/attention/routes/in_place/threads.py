"""Parts of a computation, each by a thread of its own.

PyTorch shares each operation out among its threads, and all wait for the last
before the next begins. Where operations take a millisecond and another process
holds one of two cores, that is most of the time. A thread that computes whole
parts by itself waits for nobody, and whichever is free takes the next part.
"""

import collections
import concurrent.futures
import sys


def share(parts, work):
    """Has PyTorch's threads do parts that do not depend on each other.

    Args:
        parts: List of anything.
        work: Function of an iterable of parts, which it must exhaust. It is
            called once by each thread, and each part comes to one of them.
    """
    torch = sys.modules["torch"]
    count = torch.get_num_threads()
    workers = min(count, len(parts))
    if workers < 2 or _is_watched(torch):
        work(parts)
        return
    inference = torch.is_inference_mode_enabled()
    left = collections.deque(parts)

    def take():
        # Both are a thread's own.
        with torch.inference_mode(inference), torch.no_grad():
            work(_taken(left))

    try:
        with concurrent.futures.ThreadPoolExecutor(
            workers,
            initializer=torch.set_num_threads,
            initargs=(count // workers,),
        ) as pool:
            taking = [pool.submit(take) for _ in range(workers)]
        for one in taking:
            one.result()
    finally:
        torch.set_num_threads(count)  # also of threads to come


def _taken(left):
    """Takes parts off what is left, until nothing is."""
    while left:
        try:
            part = left.popleft()
        except IndexError:  # another thread was faster
            return
        yield part


def _is_watched(torch):
    """Whether something sees the operations of this thread alone.

    Modes that count operations or stand in for tensors do.
    """
    return torch._C._len_torch_dispatch_stack() > 0
