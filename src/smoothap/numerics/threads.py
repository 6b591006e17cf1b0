"""Plain threads for compiled loops that hold no lock: as many as torch uses, none for what is quick."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any, TypeVar

import torch
from torch import Tensor

Given = TypeVar("Given")
Tag = TypeVar("Tag")
Result = TypeVar("Result")
_WORTH_A_THREAD = 1 << 20  # terms, about a millisecond


@cache
def numba_is_there() -> bool:
    """Whether the extra `fast` is installed, and SMOOTHAP_NO_NUMBA is not set."""
    return not os.environ.get("SMOOTHAP_NO_NUMBA") and find_spec("numba") is not None


def can_fuse(values: Tensor) -> bool:
    """Whether the compiled kernels take these values: float32 on the CPU, with numba installed."""
    return values.device.type == "cpu" and values.dtype == torch.float32 and numba_is_there()


def parts_for(terms: int) -> int:
    """Into how many parts a loop over so many terms is worth cutting."""
    return min(torch.get_num_threads(), 1 + terms // _WORTH_A_THREAD)


@contextmanager
def one_thread() -> Generator[None]:
    """Compute on one thread while this lasts: sums then have one order, on a machine of any number of cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def on_threads(function: Callable[..., Result], parts: int, *arguments: Any) -> list[Result]:
    """Call function(part, parts, *arguments) for each part side by side; what they return, in their order."""
    if parts == 1:
        return [function(0, 1, *arguments)]
    return list(_pool(os.getpid(), parts).map(lambda part: function(part, parts, *arguments), range(parts)))


def side_by_side(
    function: Callable[[Given], Result], items: Iterable[tuple[Given, Tag]], at_once: int
) -> Iterator[tuple[Result, Tag]]:
    """The function's result for each item, with the item's tag, in order; so many at once, each on its share of cores.

    The items are asked for here, one more than are worked on.
    """
    threads = torch.get_num_threads()
    waiting: deque[tuple[Future[Result], Tag]] = deque()
    # What torch sets in a thread holds for that thread, and for those that are new to torch while it is set.
    pool = ThreadPoolExecutor(at_once, "side", torch.set_num_threads, (max(1, threads // at_once),))
    try:
        for given, tag in items:
            waiting.append((pool.submit(function, given), tag))
            if len(waiting) > at_once:
                first, its = waiting.popleft()
                yield first.result(), its
        while waiting:
            first, its = waiting.popleft()
            yield first.result(), its
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


@cache
def _pool(process: int, parts: int) -> ThreadPoolExecutor:
    """One pool a process: threads do not survive a fork."""
    return ThreadPoolExecutor(parts, thread_name_prefix="smoothap")
