"""Shared by all tests: both ways through the core, and short example counts unless a longer run is asked for."""

import os

import pytest
from hypothesis import settings

from smoothap.ranking.threads import numba_is_there

settings.register_profile("test", deadline=None, derandomize=True, max_examples=100)
settings.register_profile("torture", deadline=None, max_examples=10_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))


@pytest.fixture(params=["fused", "plain"])
def core_path(request, monkeypatch):
    """Run the test with the compiled kernels and without."""
    if request.param == "plain":
        monkeypatch.setenv("SMOOTHAP_NO_NUMBA", "1")
    else:
        pytest.importorskip("numba")
        monkeypatch.delenv("SMOOTHAP_NO_NUMBA", raising=False)
    numba_is_there.cache_clear()
    yield request.param
    numba_is_there.cache_clear()
