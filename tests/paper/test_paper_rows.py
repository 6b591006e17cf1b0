"""The paper's rows: those of recipes and sets, and a model's metrics beside them where both are of the same kind."""

import re
from pathlib import Path

import numpy as np
import pytest

from smoothap.cli.train import _published
from smoothap.metrics import Report
from smoothap.paper.paper_rows import PAPER_TABLES, beside_the_paper

RECIPES = Path(__file__).parents[2] / "recipes"


def report(queries, recall_at=(1, 10, 100, 1000), value=0.5, skipped=0):
    recall = {k: value + place / 100 for place, k in enumerate(recall_at)}
    return Report(value, recall, {}, 0, 0, 0, queries, skipped, *[np.zeros(0)] * 2, 0, *[np.zeros(0)] * 4)


@pytest.mark.parametrize(
    ("name", "recipes"),
    [
        ("sop", ["sop_224", "sop_384"]),
        ("vehicle-id", ["vehicle_id_384"]),
        ("inaturalist", ["inaturalist_224", "inaturalist_384"]),
        ("vggface2", ["faces_senet50"]),
        ("ijbc", ["faces_senet50"]),
        ("vggface2-aligned", ["faces_arcface"]),
        ("ijbc-aligned", ["faces_arcface"]),
    ],
)
def test_the_rows_are_those_of_the_recipes(name, recipes):
    said = " ".join((RECIPES / f"{recipe}.py").read_text().partition("\nRun ")[0] for recipe in recipes)
    figures = " ".join(PAPER_TABLES[name].rows.values()).split()
    assert not set(figures) - set(re.findall(r"\d+\.\d+", said))


def test_figures_stand_below_the_papers_in_its_own_form():
    table = beside_the_paper("sop:here", {"": {"test": report(60_502)}}).splitlines()
    assert re.split(r"  +", table[0].strip()) == [
        "Table 2, Stanford Online Products", "Recall@1", "Recall@10", "Recall@100", "Recall@1000",
    ]  # fmt: skip
    assert table[-2].split() == ["paper,", "Smooth-AP", "BS=384", "80.1", "91.5", "96.6", "99.0"]
    assert table[-1].split() == ["here", "50.0", "51.0", "52.0", "53.0"]


def test_all_lists_of_vehicles_make_one_row():
    reports = {part: report(queries, (1, 5)) for part, queries in PAPER_TABLES["vehicle-id"].queries.items()}
    table = beside_the_paper("vehicle-id:here", {"": reports})
    assert "small Recall@1" in table
    assert table.splitlines()[-1].split() == ["here", "50.0", "51.0", "50.0", "51.0", "50.0", "51.0"]
    reports.pop("large")
    assert beside_the_paper("vehicle-id:here", {"": reports}) == ""


@pytest.mark.parametrize(
    ("data", "reports"),
    [
        ("folder:here", {"test": report(60_502)}),
        ("sop:here", {"test": report(60_502, (1, 2))}),  # other K
        ("sop:here", {"test": report(50_000)}),  # other images
        ("sop:here", {"test": report(60_503)}),
        ("ijbc:here", {"loose crops": report(100, (1, 5, 10))}),  # the SENet row is of boxes extended by 1.3
        ("vehicle-id-gallery:here", {"small gallery": report(7_332, (1, 5))}),
        ("inaturalist-json:here", {"test": report(136_093, (1, 4, 16, 32))}),
    ],
)
def test_other_sets_and_protocols_are_not_put_beside_the_paper(data, reports):
    assert beside_the_paper(data, {"": reports}) == ""


def test_each_training_of_an_ablation_stands_below_its_own_row():
    runs = {name: {"test": report(169_396, (1, 5, 10))} for name in ("tau-0.1", "tau-0.01", "mine")}
    table = beside_the_paper("vggface2:here", {name: runs[name] for name in ("tau-0.1", "tau-0.01")}).splitlines()
    assert [line.split()[-2:] for line in table[1:]] == [
        ["tau-0.1", "0.824"], ["tau-0.1", "0.500"], ["tau-0.01", "0.844"], ["tau-0.01", "0.500"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("set_name", "method", "figures"),
    [
        ("sop", "xbm", "80.6 91.6 96.2 98.7"),
        ("sop", "mic", "77.2 89.4 95.6 -"),
        ("vehicle-id", "mic", "86.9 93.4 - - 82.0 91.0"),
        ("inaturalist", "triplet-softhard", "58.1 75.5 86.8 90.7"),
        ("vggface2", "triplet-softhard", "0.845"),
        ("ijbc-aligned", "contrastive", "0.775"),
    ],
)
def test_another_method_has_its_own_row(set_name, method, figures):
    (row,) = _published(set_name, method).values()
    assert row == figures.split()
    assert _published(set_name, "roadmap") == {}
