from collections import defaultdict

import numpy as np
import pytest
import torch

from smoothap.metrics import confusions as module
from smoothap.metrics import evaluate
from smoothap.metrics.confusions import class_losses, confusions


def double_loop(embeddings, labels, queries, ranked):
    """AP and ranks that each class takes from each, by the definition, one pair of items at a time."""
    units = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    taken, ranks = defaultdict(float), defaultdict(int)
    for query in queries:
        scores = {item: float(np.dot(units[query], units[item])) for item in ranked if item != query}
        positives = [item for item in scores if labels[item] == labels[query]]
        for positive in positives:
            rank = sum(score >= scores[positive] for score in scores.values())
            for item, score in scores.items():
                if labels[item] != labels[query] and score >= scores[positive]:
                    taken[int(labels[query]), int(labels[item])] += 1 / (len(positives) * rank)
                    ranks[int(labels[query]), int(labels[item])] += 1
    return taken, ranks


@pytest.fixture(params=[0, 1, 2])
def points(request):
    """Directions of whole numbers on axes, so that many scores are equal, exactly: classes of 1 to 9."""
    generator = np.random.default_rng(request.param)
    labels = generator.permutation(np.repeat(np.arange(7), [1, 2, 3, 9, 5, 4, 8]))
    return np.eye(6)[generator.integers(0, 6, len(labels))] * 3.0, labels


def as_tables(rows, classes=7):
    row_of = {row.losing: row for row in rows}
    taken = {(a, b): row.taken[b] for a, row in row_of.items() for b in range(classes) if row.taken[b]}
    ranks = {(a, b): int(row.ranks[b]) for a, row in row_of.items() for b in range(classes) if row.ranks[b]}
    return taken, ranks


def test_what_classes_take_is_what_a_double_loop_counts_ties_included(points):
    embeddings, labels = points
    everything = range(len(labels))
    taken, ranks = as_tables(class_losses(embeddings, labels, progress=False))
    expected_taken, expected_ranks = double_loop(embeddings, labels, everything, everything)
    assert ranks == expected_ranks
    assert taken == pytest.approx(expected_taken)


def test_queries_against_a_gallery_are_counted_over_the_gallery_alone(points):
    embeddings, labels = points
    generator = np.random.default_rng(9)
    is_query, is_gallery = generator.random(len(labels)) < 0.5, generator.random(len(labels)) < 0.7
    rows = class_losses(embeddings, labels, is_query=is_query, is_gallery=is_gallery, progress=False)
    expected = double_loop(embeddings, labels, np.flatnonzero(is_query), np.flatnonzero(is_gallery))
    taken, ranks = as_tables(rows)
    assert ranks == expected[1]
    assert taken == pytest.approx(expected[0])


def test_all_that_is_taken_adds_up_to_the_average_precision_that_is_lost(monkeypatch):
    generator = np.random.default_rng(3)
    labels = generator.integers(0, 30, 400)
    embeddings = (generator.normal(size=(30, 16))[labels] + 2 * generator.normal(size=(400, 16))).astype(np.float32)
    lost = 1 - evaluate(embeddings, labels, progress=False).average_precision
    whole = confusions(embeddings, labels, progress=False)
    for label in range(30):
        assert whole.lost[label] == pytest.approx(np.nansum(lost[labels == label]), abs=1e-9)
    monkeypatch.setattr(module, "_LONGEST_STRIP", 7)  # classes then go over the edge of a strip
    again = confusions(torch.from_numpy(embeddings), labels, progress=False)
    assert [(p.losing, p.taking, p.ranks, p.ranks_back) for p in again.pairs] == [
        (p.losing, p.taking, p.ranks, p.ranks_back) for p in whole.pairs
    ]
    assert np.array_equal(again.taker, whole.taker)


def test_pairs_are_the_largest_of_the_whole_table_once_each_with_both_directions():
    generator = np.random.default_rng(4)
    labels = generator.integers(0, 12, 90)
    embeddings = generator.normal(size=(90, 6))
    taken, ranks = double_loop(embeddings, labels, range(90), range(90))
    largest = {}
    for (a, b), value in sorted(taken.items(), key=lambda entry: -entry[1]):
        largest.setdefault(frozenset((a, b)), (a, b, value))
    result = confusions(embeddings, labels, 5, progress=False)
    for pair, (a, b, value) in zip(result.pairs, list(largest.values())[:5], strict=True):
        assert (pair.losing, pair.taking) == (a, b)
        assert (pair.ranks, pair.ranks_back) == (ranks[a, b], ranks[b, a])
        assert pair.taken == pytest.approx(value)
        assert pair.taken_back == pytest.approx(taken[b, a])
        assert (pair.queries, pair.queries_back) == tuple((labels == label).sum() for label in (a, b))
    for label in range(12):
        worst = max(range(12), key=lambda other: taken[label, other])
        assert result.taker[label] == worst
        assert result.taken[label] == pytest.approx(taken[label, worst])
