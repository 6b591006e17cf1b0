"""Figure 2 as numbers: slopes against differences of the values, and AP of a batch by the definition."""

import json

import numpy as np
import pytest
import torch
from oracles import smooth_ap_losses
from sklearn.metrics import average_precision_score

from smoothap.functional.diagnostics import operating_width
from smoothap.functional.indicators import Sigmoid, Step
from smoothap.paper.indicator import fit_on_batch, indicator, relaxations


def test_slopes_are_those_of_the_values():
    points = torch.linspace(-0.45, 0.45, 901, dtype=torch.float64) + 1e-4  # not on the kinks
    for name, function in relaxations().items():
        after, before = function(points + 1e-8), function(points - 1e-8)
        slope = function.with_slope(points.clone())[1]
        assert ((after - before) / 2e-8 - slope).abs().max() < 1e-4, name


def test_ap_e_on_a_batch_is_by_its_definition(batch):
    embeddings, labels = batch
    error, _ = fit_on_batch(Sigmoid(0.05), embeddings, labels)
    losses = smooth_ap_losses(embeddings, labels, 0.05)
    errors = []
    for query in range(len(labels)):
        others = np.arange(len(labels)) != query
        same = (labels == labels[query]).numpy()[others]
        if same.any():
            exact = average_precision_score(same, (embeddings @ embeddings[query]).numpy()[others])
            errors.append(abs(1 - float(losses[query]) - exact))
    assert error == pytest.approx(np.mean(errors), abs=1e-9)
    assert fit_on_batch(Step(), embeddings, labels) == (pytest.approx(0, abs=1e-12), 0)


def test_a_higher_temperature_reaches_further():
    rows = indicator().table
    reach = [row["slope to"] for row in rows[1:4]]
    assert reach == pytest.approx([operating_width(tau) for tau in (0.001, 0.01, 0.1)], abs=1e-3)
    assert rows[0]["slope to"] is None
    assert rows[4]["slope to"] == rows[5]["slope to"] == 2


def test_the_command_measures_on_data_where_there_are_some(analyse):
    out = analyse("indicator", with_data=False)
    assert "AP_e" not in json.loads((out / "indicator.json").read_text())["table"][0]
    analyse("indicator", "--batch-size", 16)
    kept = json.loads((out / "indicator.json").read_text())
    assert kept["table"][0]["AP_e"] < 1e-6 < kept["table"][1]["AP_e"]
