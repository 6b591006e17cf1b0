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
        2: {"margin", "divide-and-conquer", "fast-ap", "mic", "blackbox-recall", "xbm", "smooth-ap"},
        3: {"divide-and-conquer", "mic", "fast-ap", "xbm", "smooth-ap", "triplet", "proxy-nca", "blackbox-ap"},
        4: {"softmax", "arcface", *TWO_STAGES},
    }
    for table, names in in_tables.items():
        rows = {method.name for method in open_methods("all") if any(row.table == table for row in method.paper)}
        assert rows == names


def test_options_are_numbers_under_the_names_of_the_method():
    assert METHODS["blackbox-ap"].checked({"lambda": "2", "margin": 0.1}) == {"lambda_": 2.0, "margin": 0.1}
    assert METHODS["recall-at-k"].checked({"k": "1,4"}) == {"k": (1, 4)}
    assert METHODS["recall-at-k"].checked({"k": 2}) == {"k": (2,)}
    with pytest.raises(ValueError, match=r"fast-ap has no option 'bin'\. It has: bins\."):
        METHODS["fast-ap"].checked({"bin": "20"})
    with pytest.raises(ValueError, match=r"smooth-ap has no option 'tau'\. It has: none\."):
        METHODS["smooth-ap"].checked({"tau": "1"})
    with pytest.raises(ValueError, match=r"bins must be a whole number, such as 50.*, not '2\.5'"):
        METHODS["fast-ap"].checked({"bins": "2.5"})
    with pytest.raises(ValueError, match=r"margin must be a number, such as 0\.2, not 'wide'"):
        METHODS["triplet"].checked({"margin": "wide"})
