"""How often a 95% interval over classes holds the truth, and what it costs.

    python benchmarks/interval_coverage.py

The truth is the expected mAP over draws of as many classes from a population; each draw is a new set of queries and
gallery, whose classes differ in size and spread. Prints a Markdown table of the two kinds of interval.
"""

import argparse
import time

import numpy as np

from smoothap import evaluate
from smoothap.metrics.bootstrap import class_intervals


def drawn_sums(classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A set drawn from the population and evaluated: the sum of AP and the number of queries of each class."""
    random = np.random.default_rng((classes, seed))
    spread, sizes = random.lognormal(0, 0.6, classes), random.integers(3, 12, classes)
    labels = np.repeat(np.arange(classes), sizes)
    centres = random.normal(size=(classes, 16))
    vectors = centres[labels] + 0.8 * spread[labels, None] * random.normal(size=(len(labels), 16))
    report = evaluate(vectors.astype(np.float32), labels, recall_at=(1,), progress=False)
    return np.bincount(labels, report.average_precision), sizes.astype(np.float64)


def main() -> None:
    """Print the share of the intervals that hold the truth, and their length, for each number of classes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", type=int, nargs="+", default=[20, 50, 100, 1000])
    parser.add_argument("--draws", type=int, default=400)
    arguments = parser.parse_args()
    print("| classes | percentiles hold | their length | bootstrap-t holds | its length |")
    print("| ---: | ---: | ---: | ---: | ---: |", flush=True)
    for classes in arguments.classes:
        draws = [drawn_sums(classes, seed) for seed in range(arguments.draws)]
        truth = float(np.mean([values.sum() / weights.sum() for values, weights in draws]))
        cells = []
        for below in (0, classes + 1):
            found = [class_intervals([sums], resamples=2000, few_classes=below)[0] for sums in draws]
            held = np.mean([interval.low <= truth <= interval.high for interval in found])
            length = np.mean([interval.high - interval.low for interval in found])
            cells += [f"{100 * held:.1f}%", f"{100 * length:.2f}"]
        print(f"| {classes:,} | {' | '.join(cells)} |", flush=True)
    random = np.random.default_rng(0)
    sizes = random.integers(2, 9, 11_316).astype(np.float64)
    start = time.perf_counter()
    class_intervals([(sizes * random.random(11_316), sizes)])
    print(f"\n10,000 resamples of {int(sizes.sum()):,} queries of 11,316 classes: {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
