"""The search of a method's numbers: drawn in its own ranges, moved where the best is at an edge."""

from math import log

import numpy as np
import pytest

from smoothap.benchmark.methods import METHODS, Parameter
from smoothap.benchmark.search import RATE, Range, Search, Trial

N = 8


def tried(search, judge, trials=N):
    values = search.draw(trials)
    search.trials += [Trial(each, judge(each)) for each in values]
    return values


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_part_of_every_range_is_tried_once(method):
    search = Search(method, 1e-3)
    drawn = search.draw(N)
    assert len(drawn) == N
    assert drawn == Search(method, 1e-3).draw(N)  # of a seed, always the same
    assert drawn != Search(method, 1e-3, seed=1).draw(N)
    rate = Parameter(RATE, 1e-4, 1e-2)
    for parameter in (rate, *method.tuned):
        values = np.array([each[parameter.name] for each in drawn])
        assert ((values >= parameter.low) & (values <= parameter.high)).all()
        if parameter.whole:
            assert all(isinstance(value, int) for value in values.tolist())
            continue
        measure = np.log if parameter.logarithmic else np.asarray
        place = (measure(values) - measure(parameter.low)) / (measure(parameter.high) - measure(parameter.low))
        assert sorted((N * place * 0.9999).astype(int)) == list(range(N))


@pytest.mark.parametrize(("wanted", "end"), [(1e-5, "low"), (0.1, "high"), (1e-3, "")])
def test_a_best_rate_at_an_edge_is_noticed_and_its_range_moves(wanted, end):
    search = Search(METHODS["smooth-ap"], 1e-3, rate_only=True)

    def judge(values):
        return -abs(log(values[RATE] / wanted))

    first = tried(search, judge)
    assert search.edges() == ({RATE: end} if end else {})
    best = search.best.values[RATE]
    search.go_on()
    second = tried(search, judge)
    if not end:
        assert {each[RATE] for each in first}.isdisjoint(each[RATE] for each in second)  # new ones in the same range
        assert search.edges() == {}
        return
    rates = [each[RATE] for each in second]
    assert min(rates) < best < max(rates)
    assert min(rates) == pytest.approx(best / 10, rel=0.8)
    assert max(rates) == pytest.approx(best * 10, rel=0.8)
    while search.edges():
        search.go_on()
        tried(search, judge)
    assert search.best.values[RATE] == pytest.approx(wanted, rel=0.8)
    assert search.chosen().edges == {}


def test_only_the_range_at_an_edge_moves():
    search = Search(METHODS["smooth-ap"], 1e-3)
    tried(search, lambda values: values["tau"] - abs(log(values[RATE] / 1e-3)))  # one moves the other's best
    search.trials.append(Trial({RATE: 4e-3, "tau": 0.0495}, 1.0))
    assert search.edges() == search.chosen().edges == {"tau": "high"}
    search.go_on()
    drawn = search.draw(64)
    assert 1e-4 < min(each[RATE] for each in drawn) < max(each[RATE] for each in drawn) < 1e-2
    assert max(each["tau"] for each in drawn) > 0.2


def test_a_limit_of_what_a_number_means_is_no_edge():
    share = Range.first(Parameter("memory", 0.1, 1, most=1))
    assert share.edge(0.99, [share]) == ""
    assert share.edge(0.101, [share]) == "low"
    moved = share.around(0.101)
    assert moved.high < 0.5
    assert moved.edge(0.99, [share, moved]) == ""
    whole = Range.first(Parameter("bins", 3, 33, whole=True, least=2)).around(3)
    assert whole.low == pytest.approx(2)
    assert whole.value(0.0) == 2
    assert whole.edge(2, [whole]) == ""
