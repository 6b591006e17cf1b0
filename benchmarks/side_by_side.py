"""Timings that can be trusted on a shared machine: the candidates take turns, and what counts is their ratio."""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from statistics import median


def take_turns(candidates: Mapping[str, Callable[[], object]], rounds: int, repeats: int = 1) -> dict[str, list[float]]:
    """Seconds per call of each candidate, one entry a round; every round runs all of them one after the other."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for candidate in candidates.values():
        candidate()
    for _ in range(rounds):
        for name, candidate in candidates.items():
            start = time.perf_counter()
            for _ in range(repeats):
                candidate()
            seconds[name].append((time.perf_counter() - start) / repeats)
    return seconds


def ratio(seconds: dict[str, list[float]], of: str, to: str) -> float:
    """The median over the rounds of one candidate's time over the other's."""
    return median(mine / theirs for mine, theirs in zip(seconds[of], seconds[to], strict=True))


def milliseconds(seconds: dict[str, list[float]], name: str) -> float:
    """The median time of a candidate."""
    return 1000 * median(seconds[name])


def peak_growth(setup: str, work: str) -> float:
    """Megabytes by which `work` raises the peak memory of a fresh process that has run `setup`."""
    # VmHWM is this process's own; ru_maxrss is inherited from the process that started it
    lines = "peak = lambda: int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
    reset = "open('/proc/self/clear_refs', 'w').write('5')"  # the peak starts from what is held now
    code = f"{lines}\n{setup}\n{reset}\nbefore = peak()\n{work}\nprint((peak() - before) / 1024)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(result.stdout.split()[-1])
