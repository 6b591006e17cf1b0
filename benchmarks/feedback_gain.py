"""What query expansion and one round of feedback do to mAP, by the exact evaluator.

    python benchmarks/feedback_gain.py --model MODEL --data emoji [--size 64] [--keep FOLDER]

Every test image queries all others. Expansion adds the first answers to the query. Feedback looks at the first 20
answers, whose labels tell right from wrong as a user would, and asks again; it is measured on the images that were not
shown, before and after, so that what was marked right does not count as found.
"""

import argparse
from pathlib import Path

import numpy as np
from labelled_vectors import labelled_vectors

from smoothap import evaluate
from smoothap.album.queries import corrected, expanded

SHOWN = 20


def first_answers(vectors: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows and scores of the best answers to each row, itself left out, (n, number) each."""
    rows: list[np.ndarray] = []
    scores: list[np.ndarray] = []
    for start in range(0, len(vectors), 512):
        block = vectors[start : start + 512] @ vectors.T
        block[np.arange(len(block)), np.arange(start, start + len(block))] = -2
        best = np.argpartition(-block, number, axis=1)[:, :number]
        order = np.argsort(-np.take_along_axis(block, best, 1), axis=1, kind="stable")
        rows.append(np.take_along_axis(best, order, 1))
        scores.append(np.take_along_axis(block, rows[-1], 1))
    return np.concatenate(rows), np.concatenate(scores)


def mean_average_precision(queries: np.ndarray, vectors: np.ndarray, labels: np.ndarray, ignore: np.ndarray) -> float:
    """mAP of queries (n, d) among vectors (n, d), where `ignore` (n, n) says what is not ranked."""
    report = evaluate(queries, labels, vectors, labels, [1], ignore=ignore, progress=False)
    return 100 * report.mean_average_precision


def main() -> None:
    """Print mAP before and after each way."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="tf_efficientnet_lite0")
    parser.add_argument("--data", default="emoji")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--most", type=int, default=6000, help="images, whole classes, so that it ends soon")
    options = parser.parse_args()
    vectors, labels = labelled_vectors(options.model, options.data, options.size, options.keep)["test"]
    chosen = labels < np.searchsorted(np.cumsum(np.bincount(labels)), options.most)
    vectors, labels = vectors[chosen], labels[chosen]
    itself = np.eye(len(labels), dtype=bool)
    before = mean_average_precision(vectors, vectors, labels, itself)
    print(f"{options.data}, {options.model}: {len(labels):,} images of {len(np.unique(labels)):,} classes")
    print(f"no expansion                      mAP {before:.2f}", flush=True)
    rows, scores = first_answers(vectors, SHOWN)
    for number in (1, 3, 5, 10):
        for alpha in (0.0, 3.0, 8.0):
            pairs = zip(vectors, rows[:, :number], scores[:, :number], strict=True)
            moved = np.stack([expanded(one, vectors[near], score, alpha) for one, near, score in pairs])
            after = mean_average_precision(moved, vectors, labels, itself)
            print(
                f"expansion by {number:>2}, alpha {alpha:3.0f}         mAP {after:.2f} ({after - before:+.2f})",
                flush=True,
            )
    right = labels[rows] == labels[:, None]
    shown = itself.copy()
    np.put_along_axis(shown, rows, True, axis=1)
    rest = mean_average_precision(vectors, vectors, labels, shown)
    print(f"the rest, beyond the first {SHOWN}       mAP {rest:.2f}", flush=True)
    for name, use_wrong in (("right", False), ("right and wrong", True)):
        moved = np.stack(
            [
                corrected(one, vectors[near[good]], vectors[near[~good]] if use_wrong else vectors[:0])
                for one, near, good in zip(vectors, rows, right, strict=True)
            ]
        )
        after = mean_average_precision(moved, vectors, labels, shown)
        print(f"  after marking {name:<16}  mAP {after:.2f} ({after - rest:+.2f})", flush=True)


if __name__ == "__main__":
    main()
