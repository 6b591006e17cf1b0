"""Both ways through the core: the compiled kernels and plain torch."""

from contextlib import contextmanager

import pytest

from smoothap._core.threads import numba_is_there


@contextmanager
def core_path_is(path, monkeypatch):
    """With the compiled kernels, however little there is to do, or without."""
    if path == "plain":
        monkeypatch.setenv("SMOOTHAP_NO_NUMBA", "1")
    else:
        pytest.importorskip("numba")
        monkeypatch.delenv("SMOOTHAP_NO_NUMBA", raising=False)
        monkeypatch.setattr("smoothap.metrics.cosine._WORTH_COMPILING", 0)
        monkeypatch.setattr("smoothap.metrics.sorting._WORTH_COMPILING", 0)
        monkeypatch.setattr("smoothap.metrics.counting._PAIRS_WORTH_COMPILING", 0)
    numba_is_there.cache_clear()
    yield
    numba_is_there.cache_clear()
