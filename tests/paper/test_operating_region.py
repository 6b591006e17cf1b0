"""The operating region, against a count of every element of every difference matrix."""

import json

import numpy as np
import pytest

from smoothap.functional.diagnostics import operating_share, operating_width
from smoothap.paper.operating_region import region_of


def brute_force(embeddings, labels, tau):
    """The four numbers of `region_of` by loops over queries and over the derivative of every element of D."""
    scores = embeddings @ embeddings.T
    m = len(scores)
    full = others = other_pairs = 0
    near = []
    for query in range(m):
        for i in range(m):
            negatives = 0
            for j in range(m):
                g = 1 / (1 + np.exp(-float(scores[query, j] - scores[query, i]) / tau))
                steep = g * (1 - g) / tau > 0.005
                full += steep
                if query not in (i, j) and i != j:
                    other_pairs += 1
                    others += steep
                negatives += int(steep and bool(labels[j] != labels[query]))
            if i != query and labels[i] == labels[query]:
                near.append(negatives)
    return full / m**3, others / other_pairs, np.mean(near), np.mean(np.array(near) > 0)


@pytest.mark.parametrize("tau", [0.003, 0.01, 0.05])
def test_sorting_counts_what_a_loop_over_all_elements_counts(batch, tau):
    embeddings, labels = batch
    found = region_of(embeddings, labels, operating_width(tau))
    expected = brute_force(embeddings, labels, tau)
    assert found == pytest.approx(expected, abs=1e-12)
    full, others, *_ = found
    assert others == pytest.approx(operating_share(embeddings, tau))
    assert 0 < full < 1


def test_the_command_takes_several_models_and_lets_the_test_classes_join(analyse, capsys):
    out = analyse("operating-region", "--batch-sizes", 16, 64, "--model", "test_resnet")
    assert "12 training classes are too few for batches of 64: the test images join." in capsys.readouterr().out
    kept = json.loads((out / "operating-region.json").read_text())
    assert [(row["model"], row["B"]) for row in kept["table"]] == [("test_resnet", 16), ("test_resnet", 64)] * 2
    assert kept["numbers"]["images"] == 120
    assert {path.name for path in out.glob("*.png")} == {"operating-region.png", "operating-region-slope.png"}
