"""The tests of exactness, loss and resume pass with the code that libraries keep for other processors.

Each library chooses its code by the processor it finds, and each can be told to choose another. The settings make up
three machines that are as unlike as can be: one with nothing but SSE4.2 and one thread, one with the code paths of
another vendor and three threads, and one for the setting that is left. The short form asks the first for a few numbers,
the long form runs the whole suite on each.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from core_paths import core_path_is
from guarantees import LONG

from smoothap import SmoothAP, evaluate
from smoothap.album import Album
from smoothap.metrics.known_answer import KNOWN, answer_here

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


def numbers_here(path):
    """Ranks of rows whose scores a product cannot tell apart, to the last bit, and a loss with its gradient."""
    random, labels = np.random.default_rng(0), np.arange(120) % 30
    directions = np.round(1000 * random.standard_normal((12, 8)))[random.integers(0, 12, 120)]
    embeddings = (directions * random.integers(1, 8, (120, 1))).astype(np.float32)
    rows = torch.from_numpy(random.standard_normal((120, 8)).astype(np.float32)).requires_grad_()
    with pytest.MonkeyPatch.context() as patch, core_path_is(path, patch):
        assert answer_here() == KNOWN
        loss = SmoothAP()(rows, torch.from_numpy(labels))
        loss.backward()
        return evaluate(embeddings, labels, progress=False).to_json(), [loss.item(), *rows.grad.flatten().tolist()]


def rankings_here(path):
    """Places and scores of searches by neighbourhood, with photos of the album and with one from elsewhere."""
    random = np.random.default_rng(0)
    rows = np.round(64 * random.standard_normal((25, 24)))[np.arange(500) % 25] + random.integers(-99, 100, (500, 24))
    rows[400:] = rows[:100]  # copies, whose scores are equal
    with pytest.MonkeyPatch.context() as patch, core_path_is(path, patch):
        album = Album.from_arrays(rows.astype(np.float32), {"path": [f"{row}.jpg" for row in range(500)]})
        queries = [0, 7, 450, (rows[3] + rows[9]).astype(np.float32)]
        found = [album.search(query, everything=True, rerank=rerank) for query in queries for rerank in (False, True)]
        return [[(hit.id, hit.score.hex(), hit.through) for hit in hits] for hits in found]


def run(settings, *words):
    """Run Python in a process of its own, in which the libraries see these settings; gives what it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "SMOOTHAP_"))}
    environment.pop("OMP_NUM_THREADS", None)
    for name in settings:
        environment |= SETTINGS[name]
    environment |= {_INSIDE: "1", "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    done = subprocess.run([sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    return done.stdout.strip().splitlines()[-1]


pytestmark = pytest.mark.skipif(_INSIDE in os.environ, reason="this is already such a process")


@pytest.mark.guarantee(27)
@pytest.mark.parametrize("machine", MACHINES if LONG else ["an old one"])
def test_rankings_have_the_same_places_and_bits_on(machine):
    asked = "import json, test_other_processors as here; print(json.dumps([here.rankings_here(path) for path in {}]))"
    there = json.loads(run(MACHINES[machine], "-c", asked.format(("plain", "fused") if LONG else ("plain",))))
    here = json.loads(json.dumps([rankings_here(path) for path in ("plain", "fused")]))
    assert here[0] == here[1]
    assert all(ranked == here[0] for ranked in there)
    assert here[0][0] != here[0][1]  # by neighbourhood is another order


@pytest.mark.guarantee(21)
def test_every_setting_is_one_of_a_machine():
    assert sorted(setting for machine in MACHINES.values() for setting in machine) == sorted(SETTINGS)


@pytest.mark.guarantee(21)
@pytest.mark.skipif(LONG, reason="the long form takes every test")
def test_exactness_and_loss_hold_on_an_old_one():
    asked = "import json, test_other_processors as here; print(json.dumps([here.numbers_here(path) for path in {}]))"
    paths = ("fused", "plain")
    for path, (report, loss) in zip(
        paths, json.loads(run(MACHINES["an old one"], "-c", asked.format(paths))), strict=True
    ):
        wanted, close = numbers_here(path)
        assert report == wanted
        assert loss == pytest.approx(close, abs=1e-5)


@pytest.mark.guarantee(21)
@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("machine", MACHINES)
def test_every_test_passes_on(machine, measured):
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--numprocesses=logical"]
    measured(f"{machine}: {run(MACHINES[machine], *words, '-m', 'not slow and not browser and not alone')}")
