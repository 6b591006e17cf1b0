"""Start-up: `smoothap --help` against a Python that does nothing. The aim is under 0.5 s.

Run: python benchmarks/startup_speed.py
"""

import argparse
import subprocess
import sys
import time

AIM = 0.5  # seconds


def seconds(*words: str) -> float:
    """How long this Python takes with these arguments, from start to exit."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    return time.perf_counter() - start


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
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):  # in turn, so that a busy moment hits all
        for name, words in candidates.items():
            times[name].append(seconds(*words))
    least = {name: min(each) for name, each in times.items()}
    for name, value in least.items():
        middle = sorted(times[name])[rounds // 2]
        print(f"{name:<26} least {value:.3f} s, median {middle:.3f} s, {value / least['python -c pass']:.1f}x pass")
    print(f"smoothap --help is {'under' if least['smoothap --help'] < AIM else 'OVER'} {AIM} s")


if __name__ == "__main__":
    main()
