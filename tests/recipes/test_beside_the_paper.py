"""Training and evaluation print a model's metrics beside the paper's where data and protocol are the paper's."""

from contextlib import suppress

import pytest
from tiny_sets import write_sop

from smoothap.cli import app
from smoothap.paper import paper_rows


def smoothap(*words):
    with suppress(SystemExit):  # a step need not teach the network anything
        app([str(word) for word in words], result_action="return_value", exit_on_error=False)


@pytest.mark.usefixtures("small_networks")
def test_train_and_evaluate_print_the_papers_rows(tmp_path, capsys, monkeypatch):
    small = paper_rows.PAPER_TABLES["sop"]._replace(queries={"test": 16})
    monkeypatch.setitem(paper_rows.PAPER_TABLES, "sop", small)
    data, out = write_sop(tmp_path / "data"), tmp_path / "run"
    words = ("--device", "cpu", "--size", 32, "--batch-size", 16, "--steps", 1, "--weights", "none")
    smoothap("train", "recipe:sop-384", "--data", data, "--out", out, *words)
    trained = capsys.readouterr().out
    smoothap("evaluate", "--model", out / "model", "--data", f"sop:{data}", "--device", "cpu")
    evaluated = capsys.readouterr().out
    assert trained.count("paper, Smooth-AP BS=384") == evaluated.count("paper, Smooth-AP BS=384") == 1
    here = [line for line in trained.splitlines() if line.startswith("here ")]
    assert here == [line for line in evaluated.splitlines() if line.startswith("here ")]
    smoothap("evaluate", "--model", out / "model", "--data", f"sop:{data}", "--device", "cpu", "--json")
    assert "paper" not in capsys.readouterr().out
