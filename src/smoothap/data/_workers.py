"""The processes that read images for torch's loader: how they end, and how their end is told."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader

_SECONDS = 2.0  # between two looks for the parent


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


def end_with_the_parent(_worker: int) -> None:
    """Let this worker end soon after the process that started it, also if that was killed a moment ago.

    Workers look for their parent by themselves. But if it is killed in their first moments, they take the process that
    inherits them for their parent, and stay for ever.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_watch, args=(parent.pid,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_SECONDS)
    os._exit(1)
