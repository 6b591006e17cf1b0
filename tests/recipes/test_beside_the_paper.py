"""Training and evaluation print a model's metrics beside the paper's where data and protocol are the paper's."""

import re
from contextlib import suppress
from pathlib import Path

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


@pytest.mark.usefixtures("small_networks")
def test_several_trainings_end_in_the_set_s_own_metrics_each_below_its_own_row(tmp_path, capsys, monkeypatch):
    small = paper_rows.PAPER_TABLES["sop"]._replace(queries={"test": 16})
    monkeypatch.setitem(paper_rows.PAPER_TABLES, "sop", small)
    words = ("--device", "cpu", "--size", 32, "--batch-size", 16, "--steps", 1, "--weights", "none")
    copy = tmp_path / "mine.py"  # all with one batch size, which can then be given
    recipe = Path(__file__).parents[2] / "recipes" / "sop_baselines.py"
    copy.write_text(re.sub(r"batch_size=\d+, |steps=35_000, ", "", recipe.read_text()))
    smoothap("train", copy, "--data", write_sop(tmp_path / "data"), "--out", tmp_path / "run", *words)
    told = capsys.readouterr().out
    table = told[told.rindex("\ntest, in %") :].splitlines()
    assert table[1].split()[3:] == ["mAP", "Recall@1", "Recall@10", "Recall@100", "Recall@1000"]
    assert [line.split()[0] for line in table[2:5]] == ["fast-ap", "blackbox-recall", "xbm"]
    rows = [re.split(r"  +", line.strip()) for line in table if line.startswith(("paper, ", "here, "))]
    assert [row[0] for row in rows] == [
        f"{side}, {name}" for name in ("fast-ap", "blackbox-recall", "xbm") for side in ("paper", "here")
    ]
    assert rows[0][1:] == ["76.4", "89.0", "95.1", "98.2"]
    assert rows[4][1:] == ["80.6", "91.6", "96.2", "98.7"]
