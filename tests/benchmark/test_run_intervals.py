"""The intervals of a comparison: simulated runs whose truth is known, pairs, and groups that cannot be told apart."""

import numpy as np
import pytest
from guarantees import short_or_long
from PIL import Image

from smoothap.benchmark.statistics import ClassSums, difference, estimate, groups, sums_by_class
from smoothap.data.benchmark import Benchmark
from smoothap.data.image_set import ImageSet
from smoothap.models.embedding import Embedded
from smoothap.training.evaluation import evaluate_embedded

TRUTH = 0.6


def simulated(random, *, seeds, classes, of_seed, of_class, of_both, splits=1, of_split=0.0):
    """Runs of one method: each split tests a random half of the classes, whose effects all splits share."""
    pool = classes * (2 if splits > 1 else 1)
    effect, queries = random.normal(0, of_class, pool), random.integers(3, 12, pool)
    runs = []
    for split in range(splits):
        tested = np.sort(random.permutation(pool)[:classes])
        drawn = random.normal(0, of_split)
        for seed in range(seeds):
            mean = TRUTH + drawn + random.normal(0, of_seed) + effect[tested] + random.normal(0, of_both, classes)
            runs.append(ClassSums(split, seed, tested.astype(str), mean * queries[tested], queries[tested]))
    return runs


def coverage(**of):
    random = np.random.default_rng(1)
    found = [estimate(simulated(random, **of)) for _ in range(short_or_long(200, 600))]
    return np.mean([each.low <= TRUTH <= each.high for each in found])


@pytest.mark.parametrize(
    "of",
    [
        {"seeds": 5, "classes": 100, "of_seed": 0.0, "of_class": 0.2, "of_both": 0.05},
        {"seeds": 5, "classes": 100, "of_seed": 0.05, "of_class": 0.02, "of_both": 0.02},
        {"seeds": 5, "classes": 100, "of_seed": 0.02, "of_class": 0.2, "of_both": 0.2},
        {"seeds": 3, "classes": 20, "of_seed": 0.02, "of_class": 0.1, "of_both": 0.1},
        {"seeds": 10, "classes": 1000, "of_seed": 0.01, "of_class": 0.3, "of_both": 0.1},
        {"seeds": 2, "classes": 50, "of_seed": 0.02, "of_class": 0.2, "of_both": 0.05, "splits": 4, "of_split": 0.03},
        {"seeds": 3, "classes": 50, "of_seed": 0.01, "of_class": 0.2, "of_both": 0.05, "splits": 3, "of_split": 0.0},
    ],
    ids=lambda of: " ".join(f"{name} {value}" for name, value in of.items()),
)
def test_95_intervals_of_100_hold_the_truth(of):
    assert 0.93 <= coverage(**of) <= 0.99


def test_pairs_tell_apart_what_intervals_of_each_do_not():
    random = np.random.default_rng(3)
    runs = simulated(random, seeds=5, classes=100, of_seed=0.03, of_class=0.3, of_both=0.01)
    better = [run._replace(sums=run.sums + 0.02 * run.queries + random.normal(0, 0.02, 100)) for run in runs]
    apart, ours, theirs = difference(better, runs), estimate(better), estimate(runs)
    assert apart is not None
    assert 0.015 < apart.low < apart.value < apart.high < 0.025
    assert apart.value == pytest.approx(ours.value - theirs.value)
    assert ours.low < theirs.high
    assert apart.chance < 1e-6
    unpaired = difference(better, [run._replace(seed=(run.seed + 1) % 5) for run in runs])
    assert unpaired is not None
    assert unpaired.low < 0 < unpaired.high


def test_a_pair_needs_the_same_seed_split_and_queries():
    random = np.random.default_rng(4)
    runs = simulated(random, seeds=3, classes=10, of_seed=0.1, of_class=0.1, of_both=0.1)
    only = difference(runs, [runs[1]._replace(sums=runs[1].sums - 1)])
    assert only is not None
    assert only.value == pytest.approx(10 / runs[1].queries.sum())
    assert difference(runs, [run._replace(split=1) for run in runs]) is None
    with pytest.raises(ValueError, match="not tested on the same queries"):
        difference(runs, [run._replace(names=run.names[::-1]) for run in runs])


def test_the_mean_counts_every_split_the_same():
    names, queries = np.array(["a", "b"]), np.array([1, 3])
    runs = [
        ClassSums(split, seed, names, value * queries, queries)
        for split, seed, value in [(0, 0, 0), (0, 1, 0), (1, 0, 1)]
    ]
    assert estimate(runs).value == 0.5
    assert estimate(runs[:1]) == estimate(runs[:2])  # no spread at all
    assert estimate(runs[:1]).high == 0


def test_letters_join_what_cannot_be_told_apart():
    chances = np.ones((4, 4))

    def apart(one, two):
        chances[one, two] = chances[two, one] = 1e-6

    assert groups([3, 4, 1, 2], chances) == ["a", "a", "a", "a"]
    apart(1, 2)
    assert groups([3, 4, 1, 2], chances) == ["ab", "a", "b", "ab"]
    apart(1, 3)
    apart(0, 2)
    assert groups([3, 4, 1, 2], chances) == ["ab", "a", "c", "bc"]
    chances[0, 3] = chances[3, 0] = 0.02  # Holm: 0.05 / 3 is asked of the fourth smallest of six
    assert groups([3, 4, 1, 2], chances) == ["ab", "a", "c", "bc"]


NAMES = np.array(["ant", "bee", "cat"])


@pytest.mark.parametrize(
    ("labels", "changes", "readable"),
    [
        ([2, 2, 0, 1, 0, 1], {}, range(6)),  # as in a table that is not sorted
        ([0, 0, 1, 1, 2, 2], {}, range(2, 6)),  # no ant can be read
        (
            [0, 0, 1, 1, 2, 2],  # ants are in the gallery alone
            {"is_query": np.arange(6) > 1, "is_gallery": np.ones(6, bool)},
            range(6),
        ),
    ],
    ids=["unsorted", "unreadable", "distractors"],
)
def test_what_a_run_says_of_a_class_has_its_name(labels, changes, readable):
    numbers, rows = np.array(labels), np.array(readable)
    images = ImageSet("toy", list("uvwxyz"), numbers, NAMES, lambda row, side=None: Image.new("RGB", (1, 1)), **changes)
    vectors = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    report = evaluate_embedded(Embedded(vectors[rows], rows), images, (1,))
    queries = rows if images.is_query is None else rows[images.is_query[rows]]
    found = sums_by_class(Benchmark("toy", None, {"test": images}), {"test": report})["test"]
    present = np.unique(numbers[queries])
    assert found["names"] == NAMES[present].tolist()
    assert found["mAP"] == [report.average_precision[numbers[queries] == each].sum() for each in present]


def test_images_with_the_same_labels_are_a_class_of_a_run():
    marks = np.array([[1, 0], [1, 1], [1, 1], [0, 1]], np.uint8)
    images = ImageSet(
        "toy", list("abcd"), marks.argmax(1), NAMES[:2], lambda row, side=None: Image.new("RGB", (1, 1)), marks=marks
    )
    vectors = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    report = evaluate_embedded(Embedded(vectors, np.arange(4)), images, (1,))
    found = sums_by_class(Benchmark("toy", None, {"test": images}), {"test": report})["test"]
    assert (found["names"], found["queries"]) == (["bee", "ant", "ant;bee"], [1, 1, 2])
    precision = report.average_precision
    assert found["mAP"] == [precision[3], precision[0], precision[1:3].sum()]
