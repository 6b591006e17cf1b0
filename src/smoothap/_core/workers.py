"""Processes that work for this one: how they end, and how their end is told."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader

_SECONDS = 2.0  # between two looks for the parent


def end_with_the_parent(_worker: int = 0) -> None:
    """Let this process end when the one that wanted it does, also if that was killed a moment ago.

    It might otherwise go on and write into folders that a later one uses. Workers of torch look for their parent by
    themselves, but if that is killed in their first moments, they take whoever inherits them for their parent.
    """
    threading.Thread(target=_end_after, args=(multiprocessing.parent_process(),), daemon=True).start()


def _end_after(parent: Any) -> None:
    if os.getppid() != parent.pid:  # a server of forks started this process for it, or it is gone already
        parent.join()
    while os.getppid() == parent.pid:  # to join it would be to wait for its other children too, which hold its pipes
        time.sleep(_SECONDS)
    os._exit(1)


def without_signals(loader: DataLoader[Any]) -> Iterator[Any]:
    """The loader's iterator, without the handler by which torch raises wherever the process is when a worker dies.

    That may be in the midst of a file or a lock. Without it the next batch says so, some seconds later.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGCHLD"):
        return iter(loader)  # torch has no handler there
    before = signal.getsignal(signal.SIGCHLD)
    batches = iter(loader)
    signal.signal(signal.SIGCHLD, before)
    return batches
