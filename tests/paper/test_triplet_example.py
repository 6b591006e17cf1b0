"""The worked example of section 4, against figures worked out by hand."""

import json
import math

import pytest
import torch

from smoothap.functional import average_precision
from smoothap.paper.triplet_example import POSITIVE, spending, term_gradients, triplet_example, worth_of_terms

SCORES = 0.9 - 0.02 * torch.arange(8, dtype=torch.float64)  # in the order of the example


def test_the_violating_terms_are_exactly_the_six_of_the_paper():
    paper = ["s4 - s1", "s4 - s2", "s4 - s3", "s5 - s3", "s6 - s3", "s7 - s3"]
    assert [row["term"] for row in triplet_example().table] == paper


def test_ap_of_the_order_is_that_of_the_labels_1_0_1_1_0_0_0_1():
    found = triplet_example().numbers["average_precision"]
    assert found == pytest.approx((1 / 1 + 2 / 3 + 3 / 4 + 4 / 8) / 4, abs=1e-12)


def test_the_gradient_of_a_term_is_that_of_the_equation():
    tau = 0.01
    found = term_gradients(SCORES, POSITIVE, tau)
    positives, negatives = ([place for place in range(8) if bool(POSITIVE[place]) is kind] for kind in (True, False))

    def sigmoid(j, i):
        return 1 / (1 + math.exp(-float(SCORES[j] - SCORES[i]) / tau))

    for row, i in enumerate(positives):
        above = sum(sigmoid(k, i) for k in negatives)
        among = 1 + sum(sigmoid(k, i) for k in positives if k != i)
        for j in negatives:
            g = sigmoid(j, i)
            wanted = among / (among + above) ** 2 * g * (1 - g) / tau / 4
            assert float(found[row, j]) == pytest.approx(wanted, rel=1e-9)


def test_two_moves_are_the_same_to_a_triplet_loss_and_not_to_ap():
    first, second = triplet_example().numbers["moves"]
    assert (first["from"], first["to"], second["from"], second["to"]) == (0.8, 0.5, 0.2, -0.1)
    assert first["triplet loss lost"] == pytest.approx(0.3) == second["triplet loss lost"]
    assert first["AP gained"] == 0
    assert second["AP gained"] == pytest.approx((1 - 2 / 3) / 4)  # s1 from precision 2/3 to 1, one of four positives
    assert first["Smooth-AP gained"] == pytest.approx(0, abs=1e-6)
    assert second["Smooth-AP gained"] == pytest.approx(1 / 12, abs=1e-3)


def test_the_command_writes_the_table_and_the_figure(analyse, capsys):
    out = analyse("triplet-example", "--step", 0.03, with_data=False)
    assert "s4 - s1" in capsys.readouterr().out
    kept = json.loads((out / "triplet-example.json").read_text())
    assert len(kept["table"]) == 6
    assert (out / "triplet-example.png").stat().st_size > 10_000


def test_a_term_is_worth_what_ap_gains_without_it():
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(12, generator=generator, dtype=torch.float64)
    positive = torch.arange(12) % 3 == 0
    found = worth_of_terms(scores, positive)

    def ap(without=None):  # Eq. 3, the indicator of one pair left out
        total = 0.0
        for i in range(0, 12, 3):
            above = [j for j in range(12) if scores[j] > scores[i] and (i, j) != without]
            total += (1 + sum(j % 3 == 0 for j in above)) / (1 + len(above))
        return total / 4

    assert ap() == pytest.approx(float(average_precision(scores, positive)))
    for row, i in enumerate(range(0, 12, 3)):
        for j in range(12):
            wanted = ap((i, j)) - ap() if j % 3 else 0
            assert float(found[row, j]) == pytest.approx(wanted, abs=1e-9)


def test_smooth_ap_spends_on_the_terms_that_are_worth_most_and_a_triplet_loss_on_all_alike():
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(16).repeat_interleave(4)
    near = torch.randn(16, 8, generator=generator)[labels] + torch.randn(64, 8, generator=generator)
    spent = spending(torch.nn.functional.normalize(near), labels, tau=0.05, margin=0.1)
    assert spent.worth == sorted(spent.worth, reverse=True)
    assert spent.shares["triplet"] == pytest.approx([0.2] * 5, abs=0.01)
    assert sum(spent.shares["Smooth-AP"]) == pytest.approx(1)
    assert spent.shares["Smooth-AP"][0] > 0.4


def test_the_command_measures_a_batch_of_the_users_images(analyse, capsys):
    out = analyse("triplet-example", "--batch-size", 16)
    saved = json.loads((out / "triplet-example.json").read_text())
    assert saved["numbers"]["spending"]["batch"] == 16
    assert (out / "triplet-example-batch.png").stat().st_size > 1000
    assert "violating terms in a batch of 16" in capsys.readouterr().out
