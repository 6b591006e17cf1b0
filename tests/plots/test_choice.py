import numpy as np
import pytest

from smoothap.plots.rankings import choose_queries, class_changes


def precisions(queries=200, seed=0):
    generator = np.random.default_rng(seed)
    return generator.random(queries), generator.random(queries), np.arange(queries) // 4


def test_a_dozen_queries_are_the_extremes_and_a_random_draw():
    before, after, labels = precisions()
    gains, drawn, losses, failing = choose_queries(before, after, labels, 12, seed=0)
    assert [len(group.queries) for group in (gains, drawn, losses, failing)] == [4, 4, 2, 2]
    assert gains.queries[0] == np.argmax(after - before)
    assert losses.queries[0] == np.argmin(after - before)
    assert after[failing.queries].max() < np.quantile(after, 0.1)
    everything = [query for group in (gains, drawn, losses, failing) for query in group.queries]
    assert len({int(labels[query]) for query in everything}) == 12


@pytest.mark.parametrize("number", [1, 2, 3, 5, 7, 12, 20])
def test_as_many_as_asked_for_are_shown_and_none_twice(number):
    shown = [query for group in choose_queries(*precisions(), number) for query in group.queries]
    assert len(shown) == len(set(shown)) == number


def test_classes_are_means_over_their_queries_from_the_largest_gain_down():
    before = np.array([0.2, 0.4, 0.5, np.nan, 0.9])
    after = np.array([0.6, 0.8, 0.5, np.nan, 0.1])
    changes = class_changes(before, after, np.array([3, 3, 1, 1, 7]))
    assert [(change.label, change.queries) for change in changes] == [(3, 2), (1, 1), (7, 1)]
    assert changes[0].before == pytest.approx(0.3)
    assert changes[0].after == pytest.approx(0.7)
