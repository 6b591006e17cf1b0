"""The recall that is asked for and the recall that comes back, on classes that calibration never saw.

    python benchmarks/recall_calibration.py --model MODEL --data emoji [--size 64] [--keep FOLDER]

Scores are calibrated on the validation classes (held out of the training classes), and searches ask for a recall among
the test classes. Precision is the one told to the user and the one obtained, as right answers over all answers given.
"""

import argparse
from pathlib import Path

import numpy as np
from labelled_vectors import labelled_vectors

from smoothap.album.calibration import Calibration, calibrate

ASKED = (0.5, 0.7, 0.8, 0.9, 0.95, 0.99)


def obtained(vectors: np.ndarray, labels: np.ndarray, score: float) -> tuple[float, float, float]:
    """Mean recall over queries, right answers over all answers, and the mean length of a list, each against all."""
    recalls: list[np.ndarray] = []
    right = listed = 0
    sizes = np.bincount(labels)
    for start in range(0, len(labels), 512):
        above = vectors[start : start + 512] @ vectors.T >= score
        above[np.arange(len(above)), np.arange(start, start + len(above))] = False
        hits = (above & (labels[start : start + 512, None] == labels[None, :])).sum(axis=1)
        there = sizes[labels[start : start + 512]] - 1
        recalls.append(hits[there > 0] / there[there > 0])
        right, listed = right + int(hits.sum()), listed + int(above.sum())
    return float(np.concatenate(recalls).mean()), right / max(listed, 1), listed / len(labels)


def main() -> None:
    """Print both recalls side by side."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="tf_efficientnet_lite0")
    parser.add_argument("--data", default="emoji")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    parts = labelled_vectors(options.model, options.data, options.size, options.keep)
    vectors, labels = parts["test"]
    learnt = calibrate(*parts["validation"], "validation")
    calibration = Calibration.from_dict(learnt.to_dict(), len(labels))
    classes = len(np.unique(parts["validation"][1])), len(np.unique(labels))
    told = f"{len(labels):,} images of {classes[1]:,} others"
    print(f"{options.data}: calibrated on {classes[0]:,} classes, asked in {told}")
    print("recall asked  obtained   precision told  obtained   photos a list")
    for asked in ASKED:
        score = calibration.score_for_recall(asked)
        recall, precision, length = obtained(vectors, labels, score)
        expected = calibration.precision_at(score)
        print(f"{asked:12.2f}  {recall:8.3f}   {expected:14.3f}  {precision:8.3f}   {length:13,.1f}")


if __name__ == "__main__":
    main()
