"""What `smoothap train` with its default settings does for unseen classes: every set, several seeds, before and after.

    python benchmarks/default_training.py emoji glyphs folder:../shared/data/grocery/images --seeds 3

Each training is a run of the command a user would type. A row is printed as soon as its training is done, and a folder
given with --out keeps what is finished, so that an interrupted benchmark goes on where it stopped.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any


def trained(data: str, seed: int, out: Path) -> tuple[dict[str, Any], float]:
    """The summaries before and after of one training, and how long the command took."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "smoothap", "train", "--data", data, "--out", str(out), "--seed", str(seed)]
    code = subprocess.run([*command, "--resume"], check=False, stdout=subprocess.DEVNULL).returncode
    if code not in (0, 3):  # 3: a training that did not improve the network, which is a result too
        sys.exit(f"{' '.join(command)} ended with {code}.")
    description = json.loads((out / "model" / "model.json").read_text(encoding="utf-8"))
    return description["metrics"], time.perf_counter() - start


def main() -> None:
    """Print a row of a Markdown table for each set and seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", help="as smoothap train --data takes it")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="keep the models here")
    arguments = parser.parse_args()
    print("| set | seed | mAP before | after | Recall@1 before | after | best step | seconds |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
    with TemporaryDirectory() as temporary:
        for place, data in enumerate(arguments.data):
            for seed in range(arguments.seeds):
                folder = (arguments.out or Path(temporary)) / f"{place}-{seed}"
                metrics, seconds = trained(data, seed, folder)
                before, after = (metrics[name]["test"] for name in ("before", "after"))
                shares = [report["mean_average_precision"] for report in (before, after)]
                shares += [report["recall"]["1"] for report in (before, after)]
                figures = [f"{100 * share:.1f}" for share in shares]
                print(
                    f"| {data} | {seed} | {' | '.join(figures)} | {metrics['best step']} | {seconds:.0f} |", flush=True
                )


if __name__ == "__main__":
    main()
