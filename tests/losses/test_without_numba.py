"""numba that does not import, or whose cache is damaged or full, costs speed and not the result."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("numba")

LOSS = """
import torch, threading, warnings
from smoothap import SmoothAP
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    rows = torch.randn(32, 8, generator=torch.Generator().manual_seed(0), requires_grad=True)
    SmoothAP(0.1)(rows, torch.arange(32) // 4).backward()
    SmoothAP(0.1)(rows, torch.arange(32) // 4).backward()
print(float(rows.grad.abs().sum()) > 0, [str(each.message) for each in told if "numba" in str(each.message)])
"""


def run(script, **environment):
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_numba_that_does_not_import_is_told_once(tmp_path):
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").write_text("raise ImportError('made for another numpy')")
    path = os.pathsep.join(
        [str(tmp_path), os.environ.get("PYTHONPATH", ""), *(p for p in sys.path if p.endswith("src"))]
    )
    told = run(LOSS, PYTHONPATH=path)
    assert told.startswith("True")
    assert told.count("made for another numpy") == 1


@pytest.mark.slow
def test_a_damaged_cache_is_told_once_and_compiled_again(tmp_path):
    path = os.pathsep.join([os.environ.get("PYTHONPATH", ""), *(p for p in sys.path if p.endswith("src"))])
    assert run(LOSS, NUMBA_CACHE_DIR=str(tmp_path), PYTHONPATH=path).startswith("True []")
    indices = list(tmp_path.rglob("*.nbi"))
    assert indices
    for index in indices:
        index.write_bytes(b"damaged")
    told = run(LOSS, NUMBA_CACHE_DIR=str(tmp_path), PYTHONPATH=path)
    assert told.startswith("True")
    assert told.count("cannot be used") <= 2  # a reading and a writing one at most


def test_threads_do_not_pile_up():
    told = run(
        "import torch, threading\nfrom smoothap._core.threads import on_threads\n"
        "for parts in range(2, 40):\n    on_threads(lambda part, parts: None, parts)\nprint(threading.active_count())"
    )
    assert int(told) <= 40
