"""Compiled loops on plain threads, which hold no lock: as many as torch uses, none for what is quick."""

import os
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any, TypeVar

import torch
from torch import Tensor

Function = TypeVar("Function", bound=Callable[..., Any])
Result = TypeVar("Result")
_WORTH_A_THREAD = 1 << 20  # terms, about a millisecond


@cache
def numba_is_there() -> bool:
    """Whether the extra `fast` is installed, and SMOOTHAP_NO_NUMBA is not set."""
    return not os.environ.get("SMOOTHAP_NO_NUMBA") and find_spec("numba") is not None


def compiled(**options: Any) -> Callable[[Function], Function]:
    """numba's njit without the interpreter's lock; the result is kept on disk where it can be."""
    from numba import njit

    def decorate(function: Function) -> Function:
        try:
            return njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:  # "no locator available": neither beside the file nor in the user's cache
            return njit(nogil=True, **options)(function)

    return decorate


def can_fuse(values: Tensor) -> bool:
    """Whether the compiled kernels take these values: float32 on the CPU, with numba installed."""
    return values.device.type == "cpu" and values.dtype == torch.float32 and numba_is_there()


def parts_for(terms: int) -> int:
    """Into how many parts a loop over that many terms is worth cutting."""
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
    others = [_pool(os.getpid(), parts - 1).submit(function, part, parts, *arguments) for part in range(1, parts)]
    try:
        first = function(0, parts, *arguments)
    finally:
        wait(others)
    return [first, *(other.result() for other in others)]


@cache
def _pool(process: int, parts: int) -> ThreadPoolExecutor:
    """One pool a process: threads do not survive a fork."""
    return ThreadPoolExecutor(parts, thread_name_prefix="smoothap")
