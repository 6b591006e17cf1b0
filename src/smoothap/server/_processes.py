"""Several processes that answer at one address: each maps the same vectors, and this one looks after them."""

import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any

from smoothap.server._metrics import Metrics

_LEAST, _MOST = 1.0, 30.0  # seconds after which a process that ended is started again
_LONG = 60.0  # seconds after which one that ended was none that cannot start

# Serves on a socket, with memory for counts and the number of its row in it, until it is told to stop.
Worker = Callable[[socket.socket, Any, int], None]


def run_processes(worker: Worker, listener: socket.socket, number: int, seconds_to_stop: float) -> None:
    """Run `worker` in that many processes until this one is told to stop; one that ends meanwhile is started again.

    Whoever is told to stop lets the processes finish what they have begun.
    """
    context, counts, stop = multiprocessing.get_context("spawn"), Metrics.shared(number), threading.Event()
    handlers = {each: signal.signal(each, lambda *_: stop.set()) for each in (signal.SIGINT, signal.SIGTERM)}
    # Each takes its share of the cores: more threads than cores are slower.
    share = str(max(1, (os.cpu_count() or 1) // number))
    before = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")}
    os.environ.update({name: share for name, value in before.items() if value is None})
    running: list[BaseProcess | None] = [None] * number
    started, waits, due = [0.0] * number, [_LEAST] * number, [0.0] * number
    try:
        while not stop.wait(0.1):
            for row, process in enumerate(running):
                now = time.monotonic()
                if process is not None and not process.is_alive():
                    waits[row] = _LEAST if now - started[row] > _LONG else min(2 * waits[row], _MOST)
                    due[row], running[row] = now + waits[row], None
                    print(
                        f"Process {row + 1} of {number} ended with {process.exitcode} and is started again.", flush=True
                    )
                elif process is None and now >= due[row]:
                    process = context.Process(target=worker, args=(listener, counts, row), name=f"smoothap-{row}")
                    process.start()
                    running[row], started[row] = process, now
    finally:
        _end([process for process in running if process is not None], seconds_to_stop)
        for each, handler in handlers.items():
            signal.signal(each, handler)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)


def _end(processes: list[BaseProcess], seconds: float) -> None:
    for process in processes:
        process.terminate()  # SIGTERM, at which each finishes what it has begun
    end = time.monotonic() + seconds + 5
    for process in processes:
        process.join(max(0.0, end - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()
