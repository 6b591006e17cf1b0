"""How the kernels are compiled: once, kept on disk where there is a place to keep them."""

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(**options: Any) -> Callable[[Function], Function]:
    """numba's njit without the interpreter's lock; the result is cached unless no folder can be written to."""

    def decorate(function: Function) -> Function:
        try:
            return njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:  # "no locator available": neither beside the file nor in the user's cache
            return njit(nogil=True, **options)(function)

    return decorate
