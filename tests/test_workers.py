"""The processes that read images end with the one that started them."""

import multiprocessing
import os
import sys
import time
from pathlib import Path

import pytest

from smoothap._core import workers
from smoothap._core.workers import end_with_the_parent


@pytest.mark.skipif(sys.platform != "linux", reason="forks, and looks for processes in /proc")
def test_a_worker_whose_parent_is_killed_before_it_looks_for_it_ends_too(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "_SECONDS", 0.05)
    file = tmp_path / "worker"
    if not (parent := os.fork()):
        multiprocessing.get_context("fork").Process(target=_orphan, args=(file, os.getpid())).start()
        time.sleep(0.05)
        os._exit(0)
    os.waitpid(parent, 0)
    until = time.monotonic() + 60
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.01)
    worker = int(file.read_text())
    while _runs(worker) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _runs(worker)


def _runs(process: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


def _orphan(file: Path, parent: int) -> None:
    while os.getppid() == parent:  # torch's own watchdog would be started now, and see the wrong parent
        time.sleep(0.01)
    partial = file.with_suffix(".partial")
    partial.write_text(str(os.getpid()))
    partial.rename(file)
    end_with_the_parent(0)
    time.sleep(120)
