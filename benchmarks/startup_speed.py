"""Start-up: `smoothap --help` against a Python that does nothing. The aim is under 0.5 s.

Run: python benchmarks/startup_speed.py
On a busy machine look at the seconds of the processor, which waiting for a core does not lengthen.
"""

import argparse
import resource
import subprocess
import sys
import time

AIM = 0.5  # seconds


def seconds(*words: str) -> tuple[float, float]:
    """How long this Python takes with these arguments: by the clock, and of the processor."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    clock, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    candidates = {
        "python -c pass": ("-c", "pass"),
        "smoothap --help": ("-m", "smoothap", "--help"),
        "smoothap train --help": ("-m", "smoothap", "train", "--help"),
        "python -c 'import torch'": ("-c", "import torch"),
    }
    for words in candidates.values():
        seconds(*words)  # the first run compiles and fills the disk's cache
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in candidates}
    for _ in range(rounds):  # in turn, so that a busy moment hits all
        for name, words in candidates.items():
            times[name].append(seconds(*words))
    clock, processor = ({name: min(each[kind] for each in times[name]) for name in times} for kind in (0, 1))
    for name in candidates:
        print(
            f"{name:<26} {clock[name]:.2f} s by the clock ({clock[name] / clock['python -c pass']:.1f}x pass), "
            f"{processor[name]:.2f} s of the processor ({processor[name] / processor['python -c pass']:.1f}x)"
        )
    under = "under" if clock["smoothap --help"] < AIM else "over"
    print(f"smoothap --help is {under} {AIM} s by the clock")


if __name__ == "__main__":
    main()
