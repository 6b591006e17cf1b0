"""The table of methods: their names, two stages, and the paper's results for them."""

import pytest

from smoothap import experiments
from smoothap.methods import METHODS, TWO_STAGES, open_methods


def test_names_of_methods():
    everything = open_methods("all")
    assert [method.name for method in everything] == [*METHODS, *TWO_STAGES]
    assert all(method.start is not None for method in everything[-6:])
    with pytest.raises(ValueError, match=r"no method called 'smoothap'\. Did you mean smooth-ap\?"):
        open_methods("smoothap")
    with pytest.raises(ValueError, match="Name at least one method"):
        open_methods(" ,")
    (three,) = open_methods("softmax+triplet+smooth-ap, softmax+triplet+smooth-ap")
    assert three.start is not None
    assert three.start.name == "softmax+triplet"


def test_experiments_know_the_methods_too():
    assert experiments.METHODS is METHODS
    assert experiments.open_methods is open_methods


def test_every_method_of_the_tables_has_the_papers_results():
    in_tables = {
        2: {"margin", "divide-and-conquer", "fast-ap", "mic", "blackbox-ap", "xbm", "smooth-ap"},
        3: {"divide-and-conquer", "mic", "fast-ap", "xbm", "smooth-ap", "triplet", "proxy-nca", "blackbox-ap"},
        4: {"softmax", "arcface", *TWO_STAGES},
    }
    for table, names in in_tables.items():
        rows = {method.name for method in open_methods("all") if any(row.table == table for row in method.paper)}
        assert rows == names
