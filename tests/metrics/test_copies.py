"""Queries with an exact copy among their items are counted, and said wherever the metrics are."""

import numpy as np
import pytest
import torch

from smoothap.metrics import Report, evaluate
from smoothap.metrics.rows import queries_with_copies


def rows(number, dimension=8, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).normal(size=(number, dimension)).astype(dtype)


def brute_force(queries, items=None, ignored=None):
    """The same by a loop over all pairs."""
    found = 0
    for place, query in enumerate(queries):
        others = range(len(queries if items is None else items))
        if items is None:
            others = [other for other in others if other != place]
        candidates = [other for other in others if ignored is None or not ignored[place, other]]
        found += any((query == (queries if items is None else items)[other]).all() for other in candidates)
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_a_vector_twice_makes_two_queries_with_a_copy(dtype):
    vectors = rows(20, dtype=dtype)
    vectors[7], vectors[[11, 12]] = vectors[3], vectors[5]
    report = evaluate(vectors, np.arange(20) % 4)
    assert report.copies == brute_force(vectors) == 5
    assert evaluate(vectors[:3], [0, 0, 1]).copies == 0


def test_copies_are_counted_across_queries_and_gallery():
    queries, gallery = rows(12), rows(30, seed=1)
    gallery[[4, 9, 20]] = queries[[0, 0, 5]]
    queries[1] = queries[2]  # no copy in the gallery
    report = evaluate(queries, np.arange(12) % 3, gallery, np.arange(30) % 3)
    assert report.copies == brute_force(queries, gallery) == 2
    ignored = np.zeros((12, 30), bool)
    ignored[5, 20] = ignored[0, 4] = True
    kept = evaluate(queries, np.arange(12) % 3, gallery, np.arange(30) % 3, ignore=ignored)
    assert kept.copies == brute_force(queries, gallery, ignored) == 1


@pytest.mark.parametrize("kinds", [(np.float32, np.float64), (np.float64, np.float32), (np.float16, np.float64)])
def test_copies_are_found_between_sets_of_two_types(kinds):
    queries, gallery = rows(12).astype(kinds[0]), rows(30, seed=1).astype(kinds[1])
    gallery[[4, 9, 20]] = queries[[0, 0, 5]].astype(kinds[1])
    if np.float16 not in kinds:
        queries[[0, 5]] = gallery[[4, 20]].astype(kinds[0])
    report = evaluate(queries, np.arange(12) % 3, gallery, np.arange(30) % 3)
    assert report.copies == brute_force(queries, gallery) == 2


def test_pairs_that_are_ignored_are_no_copies():
    vectors = rows(9)
    vectors[4] = vectors[2]
    ignored = np.zeros((9, 9), bool)
    ignored[2, 4] = True
    assert evaluate(vectors, np.arange(9) % 3, ignore=ignored).copies == 1


def test_keys_are_counted_as_a_loop_counts_them():
    random = np.random.default_rng(3)
    for _ in range(50):
        queries, items = random.integers(0, 12, 10), random.integers(0, 12, 8)
        ignored = random.random((10, 8)) < 0.4
        as_rows = queries[:, None], items[:, None]
        assert queries_with_copies(queries) == brute_force(as_rows[0])
        assert queries_with_copies(queries, items) == brute_force(*as_rows)
        assert queries_with_copies(queries, items, ignored) == brute_force(*as_rows, ignored)


def test_a_report_says_so_in_a_sentence_and_keeps_the_count(tmp_path):
    vectors = torch.from_numpy(rows(10)).repeat(2, 1)
    report = evaluate(vectors, torch.arange(20) % 5)
    assert "Warning: 20 of 20 queries have an exact copy of themselves" in str(report)
    report.save(tmp_path / "report.json")
    assert Report.load(tmp_path / "report.json").copies == 20
    assert "Warning" not in str(evaluate(vectors[:10], torch.arange(10) % 5))
