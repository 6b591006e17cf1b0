"""The tests of exactness, loss and resume pass with the code that libraries keep for other processors.

Each library chooses its code by the processor it finds, and each can be told to choose another. The settings make up
three machines that are as unlike as can be: one with nothing but SSE4.2 and one thread, one with the code paths of
another vendor and three threads, and one for the setting that is left. The short form runs a few tests on the first,
the long form the whole suite on each.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from guarantees import LONG

ROOT = Path(__file__).parent.parent
_INSIDE = "SMOOTHAP_OTHER_PROCESSOR"
_DISPATCHED = [
    name for name in np._core._multiarray_umath.__cpu_dispatch__ if np._core._multiarray_umath.__cpu_features__[name]
]

SETTINGS = {
    "MKL on any processor": {"MKL_CBWR": "COMPATIBLE"},
    "MKL with SSE4.2": {"MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    "MKL with AVX2": {"MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "torch without vectors": {"ATEN_CPU_CAPABILITY": "default"},
    "oneDNN with SSE4.1": {"ONEDNN_MAX_CPU_ISA": "SSE41"},
    "oneDNN with AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2"},
    "numba for any processor": {"NUMBA_CPU_NAME": "generic"},
    "OpenBLAS for Nehalem": {"OPENBLAS_CORETYPE": "Nehalem"},
    "OpenBLAS for Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "numpy without vectors": {"NPY_DISABLE_CPU_FEATURES": " ".join(_DISPATCHED)},
    "one thread": {"OMP_NUM_THREADS": "1"},
    "three threads": {"OMP_NUM_THREADS": "3"},
}
OLD = ("MKL on any processor", "torch without vectors", "oneDNN with SSE4.1", "numba for any processor")
MACHINES = {
    "an old one": (*OLD, "OpenBLAS for Nehalem", "numpy without vectors", "one thread"),
    "another one": ("MKL with SSE4.2", "oneDNN with AVX2", "OpenBLAS for Haswell", "three threads"),
    "a third one": ("MKL with AVX2",),
}
SHORT = [
    *("-k", "constant or cannot_tell or equation_term or gradient_is_right"),
    "tests/metrics/test_certified_ranks.py",
    "tests/losses/test_smooth_ap.py",
]


def run_tests(settings, *words):
    """Run pytest in a process of its own, in which the libraries see these settings."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "SMOOTHAP_"))}
    environment.pop("OMP_NUM_THREADS", None)
    for name in settings:
        environment |= SETTINGS[name]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    done = subprocess.run(command, cwd=ROOT, env=environment | {_INSIDE: "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    return done.stdout.strip().splitlines()[-1]


pytestmark = [
    pytest.mark.guarantee(21),
    pytest.mark.skipif(_INSIDE in os.environ, reason="this is already such a process"),
]


def test_every_setting_is_one_of_a_machine():
    assert sorted(setting for machine in MACHINES.values() for setting in machine) == sorted(SETTINGS)


@pytest.mark.skipif(LONG, reason="the long form takes every test")
def test_exactness_and_loss_hold_on_an_old_one():
    assert "passed" in run_tests(MACHINES["an old one"], *SHORT)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("machine", MACHINES)
def test_every_test_passes_on(machine, measured):
    words = ["--numprocesses=logical", "--dist=worksteal", "-m", "not slow and not browser and not alone"]
    measured(f"{machine}: {run_tests(MACHINES[machine], *words)}")
