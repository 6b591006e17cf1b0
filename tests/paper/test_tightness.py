"""AP_e of each step while training, one training a temperature."""

import json

import pytest
import torch
from pytorch_metric_learning.losses import FastAPLoss
from pytorch_metric_learning.reducers import DoNothingReducer

from smoothap.functional import average_precision
from smoothap.losses import BlackboxAP
from smoothap.paper.tightness import BASELINES, baseline_errors


def test_every_temperature_starts_from_the_same_weights_and_batches(analyse):
    words = ("tightness", "--batch-size", 16, "--steps", 3, "--tau", 0.1, 0.02)
    out = analyse(*words)
    text = (out / "tightness.json").read_text()
    kept = json.loads(text)
    curves = kept["numbers"]["curves"]
    assert [row["step"] for row in curves["0.1"]] == [row["step"] for row in curves["0.02"]] == [1, 2, 3]
    first = [curves[tau][0] for tau in ("0.1", "0.02")]
    # AP is the same at the first step: the smoothed one, 1 - loss, differs from it by at most AP_e
    apart = abs(first[0]["loss"] - first[1]["loss"])
    assert 0 < apart <= first[0]["approximation_error"] + first[1]["approximation_error"] + 1e-6
    assert [row["tau"] for row in kept["table"]] == [0.1, 0.02, None, None, None]
    row = kept["table"][0]
    errors = [each["approximation_error"] for each in curves["0.1"]]
    assert row["AP_e, mean"] == pytest.approx(sum(errors) / 3)
    assert (row["AP_e, first step"], row["AP_e, last step"]) == (errors[0], errors[2])
    baselines = kept["numbers"]["baselines"]  # measured on the same batches
    assert baselines["tau"] == 0.02
    assert list(baselines["curves"]) == list(BASELINES) == [row["AP of"] for row in kept["table"][2:]]
    for row, values in zip(kept["table"][2:], baselines["curves"].values(), strict=True):
        assert (len(values), row["AP_e, first step"], row["AP_e, largest"]) == (3, values[0], max(values))
        assert all(value > 0 for value in values[:2])
    assert "on the batches of the training at tau 0.02, the mean AP_e of Smooth-AP is" in kept["agreement"]
    assert all((out / name).exists() for name in ("tightness.svg", "tightness-baselines.svg"))
    assert (analyse(*words) / "tightness.json").read_text() == text  # without training again


def test_the_errors_are_those_of_the_losses_themselves(batch):
    embeddings, labels = batch
    embeddings, labels = embeddings[:22], labels[:22]  # the last two are alone of their class
    exact = []
    for query in range(22):
        others = torch.arange(22) != query
        exact.append(average_precision((embeddings @ embeddings[query])[others], (labels == labels[query])[others]))
    expected = []
    for bins in (10, 20):
        losses = FastAPLoss(num_bins=bins, reducer=DoNothingReducer())(embeddings, labels)["loss"]["losses"]
        expected.append(float((1 - losses - torch.stack(exact)).abs().mean()))
    apart = []
    for query in range(22):
        others = torch.arange(22) != query
        given = {"ref_emb": embeddings[others], "ref_labels": labels[others]}
        value = 1 - BlackboxAP()(embeddings[[query]], labels[[query]], **given)
        apart.append(abs(float(value) - float(exact[query])))
    assert baseline_errors(embeddings, labels) == pytest.approx([*expected, sum(apart) / 22], abs=1e-9)
