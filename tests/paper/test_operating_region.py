"""The operating region, against a count of every element of every difference matrix."""

import json

import numpy as np
import pytest

from smoothap.functional.diagnostics import operating_share, operating_width
from smoothap.paper.operating_region import region_of
from smoothap.training.log import read_rows


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


def test_each_batch_size_is_trained_for_an_epoch_and_its_share_is_the_mean(analyse, capsys):
    out = analyse("operating-region", "--batch-sizes", 16, 32, 64, "--tau", 1e-5)
    assert "training classes are too few for batches of 64: left out." in capsys.readouterr().out
    kept = json.loads((out / "operating-region.json").read_text())
    assert [row["B"] for row in kept["table"]] == [16, 32]
    (folder,) = (out / "operating-region").iterdir()
    for row in kept["table"]:
        steps = [each for each in read_rows(folder / f"batch-{row['B']}") if "loss" in each]
        shares = kept["numbers"]["curves of P"][str(row["B"])]
        assert row["batches"] == len(steps) == len(shares)
        assert row["P, full matrix"] == pytest.approx(np.mean(shares))
        assert len(set(shares)) > 1  # the network learns, and each batch is another
    assert {path.name for path in out.glob("*.png")} == {"operating-region.png", "operating-region-slope.png"}
