"""Figure 2 as numbers: slopes against differences of the values, and AP of a batch by the definition."""

import json

import torch

from smoothap.paper.indicator import relaxations


def test_slopes_are_those_of_the_values():
    points = torch.linspace(-0.45, 0.45, 901, dtype=torch.float64) + 1e-4  # not on the kinks
    for name, function in relaxations().items():
        after, before = function(points + 1e-8), function(points - 1e-8)
        slope = function.with_slope(points.clone())[1]
        assert ((after - before) / 2e-8 - slope).abs().max() < 1e-4, name


def test_the_command_measures_on_data_where_there_are_some(analyse):
    out = analyse("indicator", with_data=False)
    assert "AP_e" not in json.loads((out / "indicator.json").read_text())["table"][0]
    analyse("indicator", "--batch-size", 16)
    kept = json.loads((out / "indicator.json").read_text())
    assert kept["table"][0]["AP_e"] < 1e-6 < kept["table"][1]["AP_e"]
