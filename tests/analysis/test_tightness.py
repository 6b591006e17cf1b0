"""AP_e of each step while training, one training a temperature."""

import json

import pytest


def test_every_temperature_starts_from_the_same_weights_and_batches(analyse):
    out = analyse("tightness", "--batch-size", 16, "--steps", 3, "--tau", "0.1,0.01")
    kept = json.loads((out / "tightness.json").read_text())
    curves = kept["numbers"]["curves"]
    assert [row["step"] for row in curves["0.1"]] == [row["step"] for row in curves["0.01"]] == [1, 2, 3]
    first = [curves[tau][0] for tau in ("0.1", "0.01")]
    # AP is the same at the first step: the smoothed one, 1 - loss, differs from it by at most AP_e
    apart = abs(first[0]["loss"] - first[1]["loss"])
    assert 0 < apart <= first[0]["approximation_error"] + first[1]["approximation_error"] + 1e-6
    assert [row["tau"] for row in kept["table"]] == [0.1, 0.01]
    row = kept["table"][0]
    errors = [each["approximation_error"] for each in curves["0.1"]]
    assert row["AP_e, mean"] == pytest.approx(sum(errors) / 3)
    assert (row["AP_e, first step"], row["AP_e, last step"]) == (errors[0], errors[2])
    assert (out / "tightness.svg").exists()


def test_it_runs_again_without_training_again(analyse):
    words = ("tightness", "--batch-size", 16, "--steps", 2, "--tau", "0.05")
    first = (analyse(*words) / "tightness.json").read_text()
    assert (analyse(*words) / "tightness.json").read_text() == first


def test_a_list_that_is_none_is_named(analyse):
    with pytest.raises(ValueError, match=r"'0\.1;0\.01' is not a list of positive numbers with commas"):
        analyse("tightness", "--tau", "0.1;0.01")
