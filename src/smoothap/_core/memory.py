"""Memory that is freed: kept by the process while a long piece of work needs it again, or shared by its threads."""

import ctypes
import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager

# The names and numbers of glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8
_NEVER = -1
_ARENAS = 2
_DEFAULTS = {_TRIM_THRESHOLD: 128 * 1024, _MMAP_MAX: 65536}

_lock = threading.Lock()
_users = 0


@contextmanager
def freed_memory_kept() -> Generator[None]:
    """While this lasts, memory that is freed stays with the process; afterwards it goes back to the system.

    The C library gives every large block back at once, and the system fills each page with zeros when it is asked for
    again, which on a CPU is a good part of a training step. Only where that library is glibc and nobody has chosen its
    settings by MALLOC_... variables; without effect elsewhere. Works as a decorator too.
    """
    global _users
    library = _glibc()
    if library is None:
        yield
        return
    with _lock:
        _users += 1
        if _users == 1:
            library.mallopt(_TRIM_THRESHOLD, _NEVER)
            library.mallopt(_MMAP_MAX, 0)
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                for name, value in _DEFAULTS.items():
                    library.mallopt(name, value)
                library.malloc_trim(0)


def share_freed_memory() -> None:
    """From now on, let the threads of this process take memory from the same two arenas.

    glibc makes an arena for each thread, and each keeps what that thread has freed: a server grew by some MB whenever
    load gave it one thread more. Without effect where `freed_memory_kept` has none.
    """
    library = _glibc()
    if library is not None:
        library.mallopt(_ARENA_MAX, _ARENAS)


def _glibc() -> ctypes.CDLL | None:
    chosen = any(name.startswith("MALLOC_") for name in os.environ) or "malloc" in os.environ.get("GLIBC_TUNABLES", "")
    if sys.platform != "linux" or chosen:
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None
