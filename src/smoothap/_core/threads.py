"""Compiled loops on plain threads, which hold no lock: as many as torch uses, none for what is quick."""

import os
import warnings
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
_MOST_THREADS = 1024


@cache
def numba_is_there() -> bool:
    """Whether the extra `fast` is installed and can be imported, and SMOOTHAP_NO_NUMBA is not set."""
    if os.environ.get("SMOOTHAP_NO_NUMBA") or find_spec("numba") is None:
        return False
    try:
        import numba  # noqa: F401
    except Exception as error:
        _warn_once(f"numba cannot be imported ({error}), so torch does its work, more slowly: install numba again")
        return False
    return True


def compiled(**options: Any) -> Callable[[Function], Function]:
    """numba's njit without the interpreter's lock; the result is kept on disk where it can be."""
    from numba import njit

    def decorate(function: Function) -> Function:
        try:
            kernel = njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:  # "no locator available": neither beside the file nor in the user's cache
            return njit(nogil=True, **options)(function)
        kernel._cache = _ForgivingCache(kernel._cache)
        return kernel

    return decorate


class _ForgivingCache:
    """numba's cache of a kernel, in which a damaged or full disk costs another compilation and not the result."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, *of: Any) -> Any:
        """What was kept; None if there is nothing that can be read."""
        try:
            return self._cache.load_overload(*of)
        except Exception as error:  # whatever a damaged pickle brings up
            _warn_of_cache(self._cache.cache_path, error)
            return None

    def save_overload(self, *what: Any) -> None:
        """Keep a kernel, if there is room for it."""
        try:
            self._cache.save_overload(*what)
        except Exception as error:
            _warn_of_cache(self._cache.cache_path, error)


@cache
def _warn_once(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=3)


def _warn_of_cache(folder: str, error: Exception) -> None:
    _warn_once(
        f"numba's cache {folder} cannot be used ({type(error).__name__}: {error}), so kernels are compiled again in "
        "each process: delete that folder, or make room on its disk"
    )


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
    others = [_pool(os.getpid()).submit(function, part, parts, *arguments) for part in range(1, parts)]
    try:
        first = function(0, parts, *arguments)
    finally:
        wait(others)
    return [first, *(other.result() for other in others)]


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """One pool a process, since threads do not survive a fork; it has as many threads as ever worked at once."""
    return ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="smoothap")
